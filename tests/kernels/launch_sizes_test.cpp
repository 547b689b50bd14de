// Plans of CUDA launches, including sizes that are too large for a test on a card.
#include "framework/kernels/cuda/launch_sizes.h"

#include <gtest/gtest.h>

#include <bit>

#include "framework/kernels/cuda/products/group_problem.h"

namespace hexad::kernels::cuda {
namespace {

constexpr int64_t huge = int64_t{1} << 33;

TEST(LaunchSizes, UsesTheFewestBlocksThatCoverAllItems) {
  for (const int64_t per_block : {1, 4, 256, 1024})
    for (const int64_t n : {int64_t{0}, int64_t{1}, per_block, per_block + 1, huge - 1, huge, huge + 1}) {
      const int64_t blocks = blocks_of(n, per_block);
      EXPECT_GE(blocks * per_block, n);
      EXPECT_LT((blocks - 1) * per_block, n);
    }
  EXPECT_EQ(blocks_of(0, 256), 0);
  EXPECT_EQ(blocks_of(huge, 1024), int64_t{1} << 23);
}

TEST(LaunchSizes, LoopsUseAtMostTheGivenNumberOfBlocks) {
  EXPECT_EQ(blocks_of_loop(huge, 256, 132 * 8), 132 * 8);
  EXPECT_EQ(blocks_of_loop(257, 256, 132 * 8), 2);
  EXPECT_EQ(blocks_of_loop(0, 256, 132 * 8), 0);
}

TEST(LaunchSizes, GridsBeyondTheCardLimitsAreImpossible) {
  EXPECT_TRUE(Blocks(INT32_MAX).possible());
  EXPECT_FALSE(Blocks(int64_t{INT32_MAX} + 1).possible());
  EXPECT_FALSE(Blocks(huge).possible());  // one block for each row; a cast to int would give zero blocks
  EXPECT_TRUE(Blocks(1, 65535).possible());
  EXPECT_FALSE(Blocks(1, 65536).possible());
  EXPECT_TRUE(Blocks(0).none());
  EXPECT_TRUE(Blocks(5, 0).none());
  EXPECT_FALSE(Blocks(-1).possible());
}

TEST(LaunchSizes, WideAccessesNeedAlignedAddressesAndDistances) {
  alignas(16) static const unsigned char memory[64]{};
  EXPECT_TRUE(multiples_of(8, 2, memory, {16, 24}));
  EXPECT_FALSE(multiples_of(8, 2, memory + 2, {16}));
  EXPECT_FALSE(multiples_of(8, 2, memory, {16, 257}));
  EXPECT_TRUE(multiples_of(1, 2, memory + 2, {257}));
  EXPECT_TRUE(multiples_of(4, 4, nullptr, {0, huge}));
}

TEST(LaunchSizes, GroupsOfThreadsHoldTheirWholeRow) {
  constexpr int threads = 256, held = 4;
  for (int64_t vectors = 0; vectors <= int64_t{held} * max_threads_of_block; ++vectors) {
    const ThreadGroups g = ThreadGroups::of(vectors, held, threads);
    ASSERT_GE(int64_t{g.lanes} * held, vectors);
    ASSERT_EQ(g.lanes * g.rows, g.threads);
    ASSERT_EQ(g.threads % warp_size, 0);
    ASSERT_LE(g.threads, max_threads_of_block);
    // A sum over some lanes of a warp repeatedly halves their number. Therefore, the number of lanes must be a power of
    // two.
    ASSERT_TRUE(g.lanes > warp_size || std::has_single_bit(static_cast<unsigned>(g.lanes))) << vectors;
  }
  EXPECT_EQ(ThreadGroups::of(5, held, threads).lanes, 2);
  EXPECT_EQ(ThreadGroups::of(held * 33, held, threads).lanes, 64);
}

// Offsets must be correct for operands of 2^31 elements and more.
TEST(GroupProblem, StartsAtItsGroupsRowsAndWeights) {
  constexpr int64_t features = 14336, width = 4096, e = 300, begin = 1'000'001, end = begin + 7;
  const GroupProblem forward = group_problem(GroupedPass::forward, e, begin, end, features, width);
  EXPECT_EQ(forward.m, 7);
  EXPECT_EQ(forward.n, features);
  EXPECT_EQ(forward.k, width);
  EXPECT_EQ(forward.a, begin * width);
  EXPECT_EQ(forward.b, e * features * width);
  EXPECT_EQ(forward.d, begin * features);
  EXPECT_GT(forward.d, INT32_MAX);

  const GroupProblem input = group_problem(GroupedPass::input_gradient, e, begin, end, features, width);
  EXPECT_EQ(input.n, width);
  EXPECT_EQ(input.k, features);
  EXPECT_EQ(input.a, begin * features);
  EXPECT_EQ(input.d, begin * width);

  const GroupProblem weight = group_problem(GroupedPass::weight_gradient, e, begin, end, features, width);
  EXPECT_EQ(weight.m, features);
  EXPECT_EQ(weight.n, width);
  EXPECT_EQ(weight.k, 7);  // the sum has an odd number of terms
  EXPECT_EQ(weight.d, e * features * width);
}

TEST(GroupProblem, HasNoElementsForAGroupWithoutRows) {
  for (const GroupedPass pass : {GroupedPass::forward, GroupedPass::input_gradient, GroupedPass::weight_gradient})
    EXPECT_EQ(group_problem(pass, 3, 17, 17, 64, 32).m, 0);
}

}  // namespace
}  // namespace hexad::kernels::cuda
