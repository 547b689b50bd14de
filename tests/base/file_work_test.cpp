#include "framework/base/file_work.h"

#include <gtest/gtest.h>

namespace hexad::base {
namespace {

TEST(FileWork, IsVisibleThroughAHandleWhileAPhaseIsOpen) {
  const FileWork work, handle = work;
  EXPECT_FALSE(handle.now());
  {
    const auto outer = work.announce("saving");
    work.moved("a", 3), work.moved("a", 4);
    EXPECT_EQ(handle.now()->what, "saving");
    EXPECT_EQ(handle.now()->file, "a");
    EXPECT_EQ(handle.now()->bytes, 7);
    {
      const auto inner = work.announce("removing");
      EXPECT_EQ(handle.now()->what, "removing");
      EXPECT_EQ(handle.now()->file, "");
    }
    work.moved("b", 1);
    EXPECT_EQ(handle.now()->what, "saving");
    EXPECT_EQ(handle.now()->bytes, 1);
  }
  EXPECT_FALSE(handle.now());
}

TEST(FileWork, EveryMoveIsCountedEvenWithoutBytes) {
  const FileWork work;
  uint64_t last = 0;
  work.on_move([&](uint64_t moves) { last = moves; });
  const auto phase = work.announce("removing");
  const uint64_t before = work.now()->moves;
  work.moved("a");
  EXPECT_EQ(work.now()->moves, before + 1);
  EXPECT_EQ(last, before + 1);
}

}  // namespace
}  // namespace hexad::base
