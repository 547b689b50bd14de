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

TEST(Agreement, AllRanksNameTheLowestRankWithADifferentRecipe) {
  on_ranks(4, [&](const comm::ProcessGroup& ranks) {
    const comm::World world(ranks);
    const std::vector<std::vector<std::string>> overrides{{}, {}, {"optim.lr=0.375"}, {"optim.lr=0.75"}};
    const std::string message = message_of(
        ExitCode::usage, [&] { load_on_all_ranks(world, [&] { return small_recipe(overrides[world.rank()]); }); });
    EXPECT_TRUE(
        message.starts_with("rank 2 has a different recipe from rank 0; expected the same recipe and "
                            "options on all ranks (rank 0 -> rank 2):\n  optim.lr: "))
        << message;
    EXPECT_TRUE(message.ends_with(" -> 0.375")) << message;
  });
}

}  // namespace
}  // namespace hexad::tests
