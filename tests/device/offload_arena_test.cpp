// The size of the offload file stays near the peak of the memory that it holds.
#include "framework/device/offload_arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "framework/base/error.h"
#include "framework/base/philox.h"

namespace hexad::device {
namespace {

using base::Error;
using base::ExitCode;

TEST(OffloadArena, KeepsWrittenBytesAndCountsThemOutsideTheTotal) {
  OffloadArena arena("/tmp");
  auto* a = static_cast<char*>(arena.allocate(5000, Category::offload));
  auto* b = static_cast<char*>(arena.allocate(100, Category::offload));
  std::memset(a, 1, 5000);
  std::memset(b, 2, 100);
  EXPECT_EQ(a[4999], 1);
  EXPECT_EQ(b[99], 2);
  EXPECT_EQ(arena.stats().used_in(Category::offload), 5100);
  EXPECT_EQ(arena.stats().total, 0);
  arena.deallocate(a, 5000, Category::offload);
  arena.deallocate(b, 100, Category::offload);
  EXPECT_EQ(arena.stats().used_in(Category::offload), 0);
  EXPECT_EQ(arena.stats().peak_in(Category::offload), 5100);
}

TEST(OffloadArena, ReusedBlocksDoNotOverlapLiveBlocks) {
  OffloadArena arena("/tmp");
  void* first = arena.allocate(4096, Category::offload);
  auto* second = static_cast<char*>(arena.allocate(4096, Category::offload));
  std::memset(second, 2, 4096);
  arena.deallocate(first, 4096, Category::offload);
  void* third = arena.allocate(4096, Category::offload);
  std::memset(third, 3, 4096);
  EXPECT_EQ(second[0], 2);
  EXPECT_EQ(second[4095], 2);
  arena.deallocate(second, 4096, Category::offload);
  arena.deallocate(third, 4096, Category::offload);
}

TEST(OffloadArena, UnusableFolderIsNamedByAResourceError) {
  try {
    OffloadArena arena("/no/such/folder");
    FAIL() << "no error was thrown";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::resource);
    EXPECT_STREQ(
        e.what(),
        "cannot create an offload file in '/no/such/folder': No such file or directory; set offload.folder to a "
        "writable folder");
  }
}

TEST(OffloadArena, ForeignBlockIsRefused) {
  OffloadArena arena("/tmp");
  int foreign = 0;
  try {
    arena.deallocate(&foreign, 4, Category::offload);
    FAIL() << "no error was thrown";
  } catch (const std::logic_error& e) {
    EXPECT_EQ(std::string(e.what()),
              base::cat("[offload] the block ", static_cast<void*>(&foreign),
                        " was freed, but it is not in this arena; expected one of the 0 blocks of the arena"));
  }
}

constexpr int layers = 6, experts = 64, held = 8, tokens = 512, top_k = 2, row_bytes = 512, tensors = 3;

// Row counts of this rank's experts if tokens choose experts by Zipf's law. The popular experts differ by layer and
// change during training.
class ZipfRows {
 public:
  ZipfRows() {
    double sum = 0;
    for (int e = 0; e < experts; ++e) reached_[e] = sum += 1.0 / (e + 1);
  }
  int64_t rows(int step, int layer) {
    int64_t count = 0;
    for (int t = 0; t < tokens * top_k; ++t) {
      const double point = random_.uniform_double(drawn_++) * reached_.back();
      const auto expert = std::lower_bound(reached_.begin(), reached_.end(), point) - reached_.begin();
      count += (expert + layer * 7 + step / 100) % experts < held;
    }
    return count;
  }

 private:
  const base::Philox random_{7, base::Purpose::route};
  uint64_t drawn_ = 0;
  std::array<double, experts> reached_{};
};

// Each layer's rows, gate and up are offloaded in forward and restored in backward, as with `memory_reuse: s1`.
TEST(OffloadArena, StopsGrowingAlthoughSizesChangeInEveryStep) {
  constexpr int steps = 2000;
  OffloadArena arena(testing::TempDir());
  ZipfRows routing;
  std::vector<int64_t> file;
  std::vector<std::pair<void*, int64_t>> away;
  for (int step = 0; step < steps; ++step) {
    for (int layer = 0; layer < layers; ++layer) {
      const int64_t bytes = routing.rows(step, layer) * row_bytes;
      for (int i = 0; i < tensors; ++i) away.emplace_back(arena.allocate(bytes, Category::offload), bytes);
    }
    for (; !away.empty(); away.pop_back()) arena.deallocate(away.back().first, away.back().second, Category::offload);
    file.push_back(arena.file_bytes());
  }
  const int64_t peak = arena.stats().peak_in(Category::offload);
  RecordProperty("file_bytes", std::to_string(file.back()));
  RecordProperty("peak_bytes", std::to_string(peak));
  constexpr int64_t rounding = layers * tensors * 4096;
  EXPECT_LE(file.back(), peak + peak / 8 + rounding);
  EXPECT_LE(file.back(), file[steps / 2] + rounding) << "the file grew in the second half of the steps";
}

// Frees blocks in random order, as a pipeline with micro-batches in flight does. This fragments the free memory.
TEST(OffloadArena, StaysNearItsPeakWhenBlocksAreFreedInRandomOrder) {
  OffloadArena arena(testing::TempDir());
  const base::Philox random(3, base::Purpose::route);
  uint64_t drawn = 0;
  ZipfRows routing;
  std::vector<std::pair<void*, int64_t>> away;
  for (int i = 0; i < 4000; ++i) {
    if (away.size() == 40) {
      std::swap(away[random.below(drawn++, away.size())], away.back());
      arena.deallocate(away.back().first, away.back().second, Category::offload);
      away.pop_back();
    }
    const int64_t bytes = routing.rows(1, i % layers) * row_bytes;
    away.emplace_back(arena.allocate(bytes, Category::offload), bytes);
  }
  EXPECT_LE(arena.file_bytes(), arena.stats().peak_in(Category::offload) * 3 / 2);
  for (const auto& [block, bytes] : away) arena.deallocate(block, bytes, Category::offload);
}

}  // namespace
}  // namespace hexad::device
