#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "framework/base/error.h"
#include "framework/device/context.h"

namespace hexad::device {
namespace {

using base::Error;
using base::ExitCode;

TEST(CachingAllocator, AlignsBlocksToCacheLines) {
  CachingAllocator a;
  for (int64_t bytes : {1, 63, 64, 100, 513, 5000, 1 << 20}) {
    void* block = a.allocate(bytes, Category::temporary);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 64, 0u) << bytes;
    std::memset(block, 1, bytes);
    a.deallocate(block, bytes, Category::temporary);
  }
}

TEST(CachingAllocator, GivesNoBlockForZeroBytes) {
  CachingAllocator a;
  EXPECT_EQ(a.allocate(0, Category::temporary), nullptr);
  a.deallocate(nullptr, 0, Category::temporary);
  EXPECT_EQ(a.stats().total, 0);
}

TEST(CachingAllocator, AccountsByCategoryWithPeaks) {
  CachingAllocator a;
  void* p = a.allocate(1000, Category::parameter);
  void* q = a.allocate(300, Category::gradient);
  a.deallocate(q, 300, Category::gradient);
  void* r = a.allocate(200, Category::gradient);
  const MemoryStats s = a.stats();
  EXPECT_EQ(s.used_in(Category::parameter), 1000);
  EXPECT_EQ(s.used_in(Category::gradient), 200);
  EXPECT_EQ(s.peak_in(Category::gradient), 300);
  EXPECT_EQ(s.total, 1200);
  EXPECT_EQ(s.peak_total, 1300);
  a.deallocate(p, 1000, Category::parameter);
  a.deallocate(r, 200, Category::gradient);
  EXPECT_EQ(a.stats().total, 0);
}

TEST(CachingAllocator, PeakOfTheSumIsNotTheSumOfPeaks) {
  CachingAllocator a;
  for (Category c : {Category::activation, Category::temporary}) a.deallocate(a.allocate(100, c), 100, c);
  EXPECT_EQ(a.stats().peak_total, 100);
}

TEST(CachingAllocator, PeaksRestartFromPresentUse) {
  CachingAllocator a;
  void* kept = a.allocate(10, Category::temporary);
  a.deallocate(a.allocate(100, Category::temporary), 100, Category::temporary);
  a.reset_peaks();
  EXPECT_EQ(a.stats().peak_in(Category::temporary), 10);
  EXPECT_EQ(a.stats().peak_total, 10);
  a.deallocate(kept, 10, Category::temporary);
}

TEST(CachingAllocator, RecategorisingChangesTheCategoriesAndNotTheTotal) {
  CachingAllocator a;
  void* block = a.allocate(100, Category::temporary);
  a.recategorise(100, Category::temporary, Category::activation);
  EXPECT_EQ(a.stats().used_in(Category::temporary), 0);
  EXPECT_EQ(a.stats().used_in(Category::activation), 100);
  EXPECT_EQ(a.stats().total, 100);
  EXPECT_EQ(a.stats().peak_total, 100);
  a.deallocate(block, 100, Category::activation);
}

TEST(CachingAllocator, ReusesAFreedBlockOfTheSameSizeClass) {
  CachingAllocator a;
  void* first = a.allocate(1000, Category::temporary);
  a.deallocate(first, 1000, Category::temporary);
  EXPECT_EQ(a.allocate(990, Category::activation), first);
  a.deallocate(first, 990, Category::activation);
}

TEST(CachingAllocator, PoisonsFreshAndReusedBlocksWithNaN) {
  CachingAllocator a(0, true);
  for (int round = 0; round < 2; ++round) {
    auto* block = static_cast<double*>(a.allocate(80, Category::temporary));
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(std::isnan(block[i])) << "round " << round << " element " << i;
    std::fill_n(block, 10, 1.0);
    a.deallocate(block, 80, Category::temporary);
  }
}

TEST(CachingAllocator, ReleasesCachedBlocksBeforeExceedingTheLimit) {
  CachingAllocator a(4096);
  a.deallocate(a.allocate(4096, Category::temporary), 4096, Category::temporary);
  void* block = a.allocate(2048, Category::temporary);  // another size class: fits only after the cached block is freed
  EXPECT_NE(block, nullptr);
  a.deallocate(block, 2048, Category::temporary);
}

TEST(CachingAllocator, OutOfMemoryNamesTheRequestTheLimitAndTheUseByCategory) {
  CachingAllocator a(1 << 20);
  std::vector<void*> weights, kept;
  for (int i = 0; i < 2; ++i) weights.push_back(a.allocate(250000, Category::parameter));
  for (int i = 0; i < 3; ++i) kept.push_back(a.allocate(100, Category::activation));
  try {
    a.allocate(700000, Category::activation);
    FAIL() << "no error was thrown";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::resource);
    EXPECT_EQ(std::string(e.what()),
              "out of memory: activation block of 700000 bytes does not fit under the limit of 1048576 bytes; in use:\n"
              "  parameter      488 KiB in use, peak  488 KiB\n"
              "  gradient           0 B in use, peak      0 B\n"
              "  optimizer          0 B in use, peak      0 B\n"
              "  activation       300 B in use, peak    300 B\n"
              "  temporary          0 B in use, peak      0 B\n"
              "  communication      0 B in use, peak      0 B\n"
              "  connection         0 B in use, peak      0 B\n"
              "  offload            0 B in use, peak      0 B\n"
              "  total          489 KiB in use, peak  489 KiB\n"
              "largest blocks:\n"
              "  2 x 244 KiB parameter\n"
              "  3 x 100 B activation");
  }
  EXPECT_EQ(a.stats().total, 500300) << "a failed request is not counted";
  for (void* block : weights) a.deallocate(block, 250000, Category::parameter);
  for (void* block : kept) a.deallocate(block, 100, Category::activation);
  EXPECT_EQ(a.largest_blocks(), "");
}

TEST(CachingAllocator, CountsMemoryOfLibraries) {
  CachingAllocator a;
  void* block = a.allocate(100, Category::temporary);
  a.account(5000, Category::connection);
  a.account(300, Category::connection);
  EXPECT_EQ(a.stats().used_in(Category::connection), 5300);
  EXPECT_EQ(a.stats().total, 5400);
  EXPECT_EQ(a.stats().held, 0) << "the held memory of this allocator is not measured";
  EXPECT_EQ(a.stats().fragmentation(), 0);
  EXPECT_EQ(a.largest_blocks(), "  1 x 100 B temporary");
  a.account(-5300, Category::connection);
  EXPECT_EQ(a.stats().total, 100);
  EXPECT_EQ(a.stats().peak_in(Category::connection), 5300);
  a.deallocate(block, 100, Category::temporary);
}

TEST(CachingAllocator, LimitIncludesMemoryOfLibraries) {
  CachingAllocator a(4096);
  a.account(3072, Category::connection);
  EXPECT_THROW(static_cast<void>(a.allocate(2048, Category::temporary)), Error);
  void* block = a.allocate(1024, Category::temporary);
  a.account(-3072, Category::connection);
  void* another = a.allocate(2048, Category::temporary);
  a.deallocate(block, 1024, Category::temporary);
  a.deallocate(another, 2048, Category::temporary);
}

TEST(CachingAllocator, LargestBlocksAreRankedByTotalBytes) {
  CachingAllocator a;
  std::vector<std::pair<void*, int64_t>> blocks;
  for (int64_t bytes : {1536, 1024, 1024, 64}) blocks.emplace_back(a.allocate(bytes, Category::temporary), bytes);
  a.recategorise(64, Category::temporary, Category::activation);
  EXPECT_EQ(a.largest_blocks(), "  2 x 1.00 KiB temporary\n  1 x 1.50 KiB temporary\n  1 x 64 B activation");
  a.recategorise(64, Category::activation, Category::temporary);
  for (const auto& [block, bytes] : blocks) a.deallocate(block, bytes, Category::temporary);
}

TEST(DeviceContext, MakesItsOffloadMemoryAtFirstUse) {
  DeviceContext lazy({.offload_folder = "/no/such/folder"});
  EXPECT_THROW(lazy.offload_allocator(), Error);
}

TEST(DeviceContext, NamesItsLanes) {
  EXPECT_EQ(name_of(Lane::inter), "inter");
  EXPECT_EQ(name_of(Lane::compute), "compute");
}

}  // namespace
}  // namespace hexad::device
