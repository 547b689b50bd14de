// Ranks that load a recipe together.
#include <gtest/gtest.h>

#include <new>

#include "tests/training/training.h"
#include "tools/train/recipe/job.h"

namespace hexad::tests {

using namespace base;
using namespace train;
namespace {

TEST(Agreement, LackOfMemoryOnOneRankIsThrownByAllRanks) {
  on_ranks(2, [&](const comm::ProcessGroup& ranks) {
    const comm::World world(ranks);
    const auto load = [&] {
      if (world.rank() == 1) throw std::bad_alloc();
      return small_recipe();
    };
    EXPECT_EQ(message_of(ExitCode::resource, [&] { load_on_all_ranks(world, load); }),
              "only some ranks have this problem, for example rank 1: out of memory");
  });
}

}  // namespace
}  // namespace hexad::tests
