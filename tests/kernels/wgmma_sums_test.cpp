// Places of the sums that threads have after products on Hopper's tensor cores.
#include "framework/kernels/cuda/products/wgmma_sums.h"

#include <gtest/gtest.h>

#include <vector>

namespace hexad::kernels::cuda {
namespace {

struct Tile {
  int columns, threads;
};
constexpr int rows = 128;
constexpr Tile tiles[] = {{128, 128}, {256, 256}};

TEST(WgmmaSums, CoverATileOnce) {
  for (const auto& [columns, threads] : tiles) {
    std::vector<int> found(static_cast<size_t>(rows * columns), 0);
    for (int thread = 0; thread < threads; ++thread)
      for (int i = 0; i < rows * columns / threads; ++i) {
        const SumPlace place = place_of_sum(thread, i, columns);
        ASSERT_TRUE(place.row >= 0 && place.row < rows && place.column >= 0 && place.column < columns);
        ++found[static_cast<size_t>(place.row * columns + place.column)];
      }
    for (const int times : found) ASSERT_EQ(times, 1) << columns << " columns";
  }
}

// The figure of wgmma.m64nNk16's fragment D in the PTX ISA.
TEST(WgmmaSums, AreWhereThePtxManualShowsThem) {
  const auto expect = [](int thread, int i, int columns, int row, int column) {
    const SumPlace place = place_of_sum(thread, i, columns);
    EXPECT_EQ(place.row, row) << "sum " << i << " of thread " << thread;
    EXPECT_EQ(place.column, column) << "sum " << i << " of thread " << thread;
  };
  for (const auto& [columns, threads] : tiles) {
    expect(0, 0, columns, 0, 0);
    expect(0, 1, columns, 0, 1);
    expect(0, 2, columns, 8, 0);
    expect(0, 4, columns, 0, 8);
    expect(1, 0, columns, 0, 2);
    expect(4, 0, columns, 1, 0);
    expect(31, 3, columns, 15, 7);
    expect(32, 0, columns, 16, 0);
    expect(127, columns / 2 - 1, columns, 63, columns - 1);
  }
  expect(0, 64, 128, 64, 0);
  expect(128, 0, 256, 64, 0);
}

// A quad has all columns of a block of eight, so that its threads can exchange words.
TEST(WgmmaSums, ShareRowsInAQuad) {
  for (const auto& [columns, threads] : tiles)
    for (int thread = 0; thread < threads; ++thread)
      for (int i = 0; i < rows * columns / threads; ++i) {
        const SumPlace first = place_of_sum(thread - thread % 4, i - i % 2, columns),
                       place = place_of_sum(thread, i, columns);
        ASSERT_EQ(place.row, first.row);
        ASSERT_EQ(place.column, first.column + thread % 4 * 2 + i % 2);
        ASSERT_EQ(first.column % 8, 0);
      }
}

}  // namespace
}  // namespace hexad::kernels::cuda
