// Segment of card memory: joins free ranges, grows, and gives pages back.
#include "framework/device/cuda/segment.h"

#include <gtest/gtest.h>

#include <cstring>

#include "framework/base/error.h"
#include "tests/support/cuda_double/memory.h"

namespace hexad::device::cuda {
namespace {

constexpr int64_t mib = int64_t{1} << 20;
constexpr int64_t page = 2 * mib;

struct CudaSegment : ::testing::Test {
  void* take(int64_t bytes) {
    auto taken = segment.take(bytes);
    if (!taken) {
      EXPECT_TRUE(segment.grow(bytes));
      taken = segment.take(bytes);
    }
    EXPECT_TRUE(taken.has_value());
    std::memset(taken->begin, 1, bytes);  // pages of the CUDA test double exist and are writable
    return taken->begin;
  }
  void give(void* p, int64_t bytes) { segment.give(p, bytes, {}); }

  const Driver driver{0};
  Segment segment{driver, 64 * page, page};
};

TEST_F(CudaSegment, GrowsByPagesAndKeepsThem) {
  EXPECT_EQ(segment.held(), 0);
  void* p = take(3 * mib);
  EXPECT_EQ(segment.held(), 2 * page);
  give(p, 3 * mib);
  EXPECT_EQ(segment.held(), 2 * page);
  EXPECT_EQ(take(4 * mib), p);
  EXPECT_EQ(cuda_double::in_use(0), 2 * page);
}

TEST_F(CudaSegment, NeighboursJoin) {
  void *a = take(mib), *b = take(mib), *c = take(mib);
  give(a, mib);
  give(c, mib);
  give(b, mib);
  EXPECT_EQ(take(3 * mib), a);
  EXPECT_EQ(segment.held(), 2 * page);
}

TEST_F(CudaSegment, GrowsOnlyByTheMissingPages) {
  void* a = take(3 * mib);
  EXPECT_EQ(segment.missing(5 * mib), 2 * page);  // one mebibyte of the second page is free
  void* b = take(5 * mib);
  EXPECT_EQ(static_cast<char*>(b) - static_cast<char*>(a), 3 * mib);
  EXPECT_EQ(segment.held(), 4 * page);
}

TEST_F(CudaSegment, ReturnsFreePagesAndGrowsIntoTheGap) {
  void *a = take(3 * mib), *b = take(6 * mib), *c = take(mib);
  give(b, 6 * mib);  // two whole pages, and a part of the page on either side
  segment.give_back_pages();
  EXPECT_EQ(segment.held(), 3 * page);
  EXPECT_EQ(cuda_double::in_use(0), 3 * page);
  EXPECT_EQ(segment.missing(6 * mib), 2 * page);
  EXPECT_EQ(take(6 * mib), b);
  EXPECT_EQ(segment.held(), 5 * page);
  give(a, 3 * mib), give(b, 6 * mib), give(c, mib);
  segment.give_back_pages();
  EXPECT_EQ(segment.held(), 0);
}

TEST_F(CudaSegment, TakenBlockWaitsForAllFormerUsersOfItsParts) {
  const auto first = std::make_shared<Queue>(0, 0), second = std::make_shared<Queue>(0, 0);
  void *a = take(mib), *b = take(mib);
  const Marks of_a{first->record()}, of_b{second->record()};
  segment.give(a, mib, of_a);
  segment.give(b, mib, of_b);
  const auto half = segment.take(mib / 2);
  EXPECT_EQ(half->former, of_a);
  const auto rest = segment.take(mib);  // the second half of a, the first half of b
  EXPECT_EQ(rest->former, (Marks{of_a[0], of_b[0]}));
  EXPECT_EQ(segment.take(mib / 2)->former, of_b);
}

TEST_F(CudaSegment, GrowsOnlyToTheCapacityOfTheCard) {
  const int64_t before = cuda_double::capacity();
  cuda_double::set_capacity(3 * page);
  EXPECT_FALSE(segment.grow(4 * page));
  EXPECT_EQ(segment.held(), 3 * page);
  EXPECT_TRUE(segment.take(3 * page).has_value());
  cuda_double::set_capacity(before);
}

TEST_F(CudaSegment, ThrowsIfItsAddressesDoNotSuffice) { EXPECT_THROW(segment.grow(65 * page), base::Error); }

}  // namespace
}  // namespace hexad::device::cuda
