// Temporary changes of block sizes, and the shipped sizes on which results depend.
#include "framework/base/block_sizes.h"

#include <gtest/gtest.h>

namespace hexad::base {
namespace {

TEST(BlockSizes, ChangeInAScopeAndReturnAfterIt) {
  const BlockSizes shipped, small{.expert_rows = 3, .total_elements = 5};
  EXPECT_EQ(block_sizes(), shipped);
  {
    const WithBlockSizes with(small);
    EXPECT_EQ(block_sizes(), small);
    {
      const WithBlockSizes inner(shipped);
      EXPECT_EQ(block_sizes(), shipped);
    }
    EXPECT_EQ(block_sizes(), small);
  }
  EXPECT_EQ(block_sizes(), shipped);
}

// Results of runs depend on these sizes, because another block size rounds sums differently.
TEST(BlockSizes, KeepTheirReleasedValuesForSums) {
  EXPECT_EQ(block_sizes().total_elements, 65536);
  EXPECT_EQ(block_sizes().expert_rows, 256);
}

}  // namespace
}  // namespace hexad::base
