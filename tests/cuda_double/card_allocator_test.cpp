// Allocator of card memory: limits, NaNs in new memory, and the amount of unused memory.
#include "framework/device/cuda/card_allocator.h"
#include "framework/base/units.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "framework/base/error.h"
#include "tests/support/cuda_double/append.h"
#include "tests/support/cuda_double/memory.h"

namespace hexad::device::cuda {
namespace {

constexpr int64_t mib = int64_t{1} << 20;

CardAllocator::Options options(int64_t limit = 0) {
  return {.ordinal = 0, .addresses = int64_t{64} << 30, .limit = limit};
}

TEST(CardAllocator, LimitIncludesMemoryOfLibraries) {
  CardAllocator allocator(std::make_shared<Blocks>(), options(64 * mib));
  allocator.account(40 * mib, Category::connection);
  EXPECT_EQ(allocator.stats().held, 40 * mib);
  EXPECT_THROW(static_cast<void>(allocator.allocate(30 * mib, Category::temporary)), base::Error);
  void* p = allocator.allocate(20 * mib, Category::temporary);
  EXPECT_EQ(allocator.stats().held, 64 * mib);
  EXPECT_GE(allocator.stats().fragmentation(), 0);
  allocator.deallocate(p, 20 * mib, Category::temporary);
  allocator.account(-40 * mib, Category::connection);
  EXPECT_EQ(allocator.stats().held, 24 * mib);
}

TEST(CardAllocator, ReusesMemoryAndReportsItsLimit) {
  CardAllocator allocator(std::make_shared<Blocks>(), options(64 * mib));
  for (int i = 0; i < 100; ++i)
    allocator.deallocate(allocator.allocate(40 * mib + i, Category::temporary), 40 * mib + i, Category::temporary);
  EXPECT_LE(allocator.stats().peak_held, 48 * mib);
  void* p = allocator.allocate(50 * mib, Category::temporary);
  allocator.deallocate(p, 50 * mib, Category::temporary);
  try {
    static_cast<void>(allocator.allocate(70 * mib, Category::activation));
    FAIL();
  } catch (const base::Error& e) {
    const std::string text = e.what();
    EXPECT_TRUE(text.starts_with(
        "out of memory of the card: activation block of 73400320 bytes does not fit under the limit of "
        "67108864 bytes; in use:\n"))
        << text;
  }
  EXPECT_EQ(allocator.stats().total, 0);
}

TEST(CardAllocator, NamesItsLimitOnlyIfTheBlockExceedsIt) {
  CardAllocator allocator(std::make_shared<Blocks>(), options(256 * mib));
  const int64_t whole = cuda_double::capacity();
  cuda_double::set_capacity(cuda_double::in_use(0) + 16 * mib);
  std::string text;
  try {
    static_cast<void>(allocator.allocate(64 * mib, Category::activation));
  } catch (const base::Error& e) {
    text = e.what();
  }
  cuda_double::set_capacity(whole);
  EXPECT_TRUE(
      text.starts_with("out of memory of the card: activation block of 67108864 bytes cannot be allocated; in use:\n"))
      << text;
}

TEST(CardAllocator, MemoryFreedInOneSegmentServesAnother) {
  CardAllocator allocator(std::make_shared<Blocks>(), options(64 * mib));
  void* p = allocator.allocate(60 * mib, Category::temporary);
  allocator.deallocate(p, 60 * mib, Category::temporary);
  void* q = allocator.allocate(60 * mib, Category::parameter);
  EXPECT_NE(q, nullptr);
  allocator.deallocate(q, 60 * mib, Category::parameter);
}

TEST(CardAllocator, LargeGradientsAndParametersAreWholeBlocksOnRequest) {
  const auto blocks = std::make_shared<Blocks>();
  CardAllocator allocator(blocks, options(64 * mib));
  const auto whole = [&](int64_t bytes, Category category) {
    void* p = allocator.allocate(bytes, category);
    const auto block = blocks->whole(static_cast<char*>(p) + bytes - 1);
    const int64_t size = block ? block->bytes : 0;
    if (block) {
      EXPECT_EQ(block->begin, p);
      EXPECT_TRUE(cuda_double::is_one_piece(p, size));
    }
    allocator.deallocate(p, bytes, category);
    return size;
  };
  EXPECT_EQ(whole(5 * mib, Category::gradient), 0);
  blocks->make_whole();
  EXPECT_EQ(whole(5 * mib, Category::gradient), 6 * mib);
  EXPECT_EQ(whole(60 * mib, Category::parameter), 60 * mib);  // fits only after cached memory is given back
  EXPECT_EQ(whole(3 * mib, Category::gradient), 0);
  EXPECT_EQ(whole(5 * mib, Category::optimizer), 0);
  EXPECT_THROW(static_cast<void>(allocator.allocate(64 * mib + 1, Category::gradient)), base::Error);
  EXPECT_EQ(allocator.stats().total, 0);
}

TEST(CardAllocator, NewBlocksAreNanForTheirFirstUser) {
  const auto blocks = std::make_shared<Blocks>();
  CardAllocator::Options poisoned = options();
  poisoned.poison = true;
  CardAllocator allocator(blocks, poisoned);
  const auto queue = std::make_shared<Queue>(0, 0);
  for (int i = 0; i < 20; ++i) {
    auto* p = static_cast<float*>(allocator.allocate(400'000, Category::temporary));
    bool all = true;
    blocks->touch(p, queue);
    cuda_double::append(*queue, [&all, p] {
      for (int k = 0; k < 100'000; ++k) all = all && std::isnan(p[k]), p[k] = 1;
    });
    queue->synchronize();
    EXPECT_TRUE(all);
    allocator.deallocate(p, 400'000, Category::temporary);
  }
}

// Step of a rank that allocates and frees memory for the rows of its experts under Zipf-skewed routing. The number of
// rows differs by step and layer.
class RoutedStep {
 public:
  RoutedStep(CardAllocator& allocator, uint64_t seed) : allocator_(allocator), random_(seed) {}

  void run() {
    struct Layer {
      std::vector<std::pair<void*, int64_t>> kept;
    };
    std::vector<Layer> layers(layer_count);
    for (Layer& layer : layers) {
      const int64_t rows = draw_rows();
      auto x = make(tokens * width, Category::activation);
      auto sent = make(rows * width, Category::communication);
      auto both = make(rows * 2 * inner, Category::activation);
      auto product = make(rows * inner, Category::activation);
      auto out = make(rows * width, Category::temporary);
      drop(sent), drop(out);
      layer.kept = {x, both, product};
    }
    for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
      auto dy = make(tokens * width, Category::temporary);
      auto dproduct = make(layer->kept[2].second / 2, Category::temporary);
      auto dboth = make(layer->kept[1].second / 2, Category::temporary);
      drop(dproduct);
      for (auto& kept : layer->kept) drop(kept);
      drop(dboth), drop(dy);
    }
  }

 private:
  static constexpr int layer_count = 12;
  static constexpr int64_t tokens = 16384, experts_each = 4, width = 2048, inner = 1024;

  // Draws the number of rows of this rank. On average, the rank has an eighth of the 64 experts. Its experts and the
  // loads of all experts are random.
  int64_t draw_rows() {
    double mine = 0, all = 0;
    for (int e = 0; e < 64; ++e) {
      const double load = 1 / std::pow(1 + e, 0.8) * std::uniform_real_distribution<>(0.5, 1.5)(random_);
      all += load;
      if (std::uniform_int_distribution<>(0, 7)(random_) == 0) mine += load;
    }
    return 1 + static_cast<int64_t>(mine / all * 8 * tokens * experts_each);
  }
  std::pair<void*, int64_t> make(int64_t elements, Category category) {
    const int64_t bytes = 2 * elements;
    auto* p = allocator_.allocate(bytes, category);
    categories_[p] = category;
    return {p, bytes};
  }
  void drop(const std::pair<void*, int64_t>& block) {
    allocator_.deallocate(block.first, block.second, categories_[block.first]);
  }

  CardAllocator& allocator_;
  std::mt19937_64 random_;
  std::map<void*, Category> categories_;
};

// 2,000 steps with varying sizes need little more memory than the largest of these steps.
TEST(CardAllocator, TwoThousandRoutedStepsFragmentLessThanThreePercent) {
  constexpr uint64_t seed = 20261123;
  std::cout << "seed " << seed << '\n';
  int64_t peak = 0;
  {
    CardAllocator allocator(std::make_shared<Blocks>(), options());
    RoutedStep step(allocator, seed);
    for (int i = 0; i < 2000; ++i) step.run();
    peak = allocator.stats().peak_total;
    std::cout << "without a limit: " << base::human_bytes(static_cast<double>(allocator.stats().peak_held))
              << " held for a peak use of " << base::human_bytes(static_cast<double>(peak)) << ", "
              << 100 * allocator.stats().fragmentation() << "% of the held memory unused\n";
  }
  CardAllocator tight(std::make_shared<Blocks>(), options(peak + peak / 34));
  RoutedStep step(tight, seed);
  for (int i = 0; i < 2000; ++i) ASSERT_NO_THROW(step.run()) << "step " << i;
  EXPECT_LT(tight.stats().fragmentation(), 0.03);
}

}  // namespace
}  // namespace hexad::device::cuda
