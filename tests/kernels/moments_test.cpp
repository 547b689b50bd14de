// AdamW's moments in bf16: bits of the random rounding, and changes too small for rounding to nearest.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "framework/base/random_rounding.h"
#include "tests/kernels/edge.h"

namespace hexad::tests {

using namespace base;
using namespace kernels;
namespace {

constexpr uint32_t key = 0x2545f491;

class Moments : public EdgeTest {
 protected:
  Tensor bf16s(const Floats& values, int64_t skipped = 0) {
    std::vector<bf16> all(skipped);
    for (const float v : values) all.emplace_back(v);
    const auto n = static_cast<int64_t>(all.size());
    return tensor(all, {n}).slice(0, skipped, n);
  }
  Tensor floats(const Floats& values) { return tensor(values, {static_cast<int64_t>(values.size())}); }

  static double mean(const Tensor& t) {
    const auto values = t.to_vector<bf16>();
    return std::accumulate(values.begin(), values.end(), 0.0,
                           [](double sum, bf16 v) { return sum + static_cast<double>(v); }) /
           static_cast<double>(values.size());
  }
};
INSTANTIATE_TEST_SUITE_P(Kernels, Moments, ::testing::ValuesIn(backends_under_test()),
                         [](const auto& p) { return p.param.name; });

constexpr AdamwStep halving{.lr = 0.01, .beta1 = 0.5, .beta2 = 0.5, .eps = 1e-8, .step = 3};

/// Moments in bf16, and gradients. For any order of operations, the new moments are exact in f32 before they are
/// rounded to bf16.
struct Numbers {
  Floats m, v, gradient;

  explicit Numbers(int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      const float sign = i % 3 ? 1.0f : -1.0f;
      gradient.push_back(sign * (1 + static_cast<float>(i * 7 % 400) / 2048));
      m.push_back(sign * (1 + static_cast<float>(i % 128) / 128));
      v.push_back(1 + static_cast<float>(i * 5 % 128) / 128);
    }
  }
};

// Expects that m and v equal the moments after the step `halving`, which starts with the moments and gradients in
// `before`. The new moments are rounded by random bits, which depend on the key `of_slice` and on the indices in
// `place`.
void expect_rounded(const Numbers& before, const Tensor& m, const Tensor& v, const GlobalIndex& place,
                    uint32_t of_slice) {
  const auto got_m = m.to_vector<bf16>(), got_v = v.to_vector<bf16>();
  ASSERT_EQ(got_m.size(), before.m.size());
  for (size_t i = 0; i < got_m.size(); ++i) {
    const float g = before.gradient[i], mi = 0.5f * before.m[i] + 0.5f * g, vi = 0.5f * before.v[i] + 0.5f * g * g;
    const auto index = place.at(static_cast<int64_t>(i)).index;
    const uint32_t random = random_bits(of_slice, static_cast<uint32_t>(index));
    ASSERT_EQ(got_m[i].bits, bf16_bits_at_random(mi, random)) << i;
    ASSERT_EQ(got_v[i].bits, bf16_bits_at_random(vi, random >> 16)) << i;
  }
}

// Tests runs of a partitioned parameter that end inside vectors, and slices that begin at an odd element. One size
// exceeds the 16384 elements that a block processes on a card.
TEST_P(Moments, AreRoundedByTheBitsOfTheirElementInTheWholeParameter) {
  const GlobalIndex whole{}, later{.begin = 5}, cut{.begin = 5, .first = 11, .run = 13, .stride = 40},
      far{.first = (int64_t{1} << 32) - 100};
  for (const auto& [n, places] :
       {std::pair{int64_t{1027}, std::vector{whole, later, cut, far}}, {int64_t{40'003}, std::vector{cut}}})
    for (const GlobalIndex& place : places)
      for (const int64_t skipped : {0, 1}) {
        SCOPED_TRACE(base::cat(n, " elements, run ", place.run, ", first ", place.first, ", skipped ", skipped));
        const Numbers numbers(n);
        const Tensor m = bf16s(numbers.m, skipped), v = bf16s(numbers.v, skipped), main = filled({n}, 1),
                     exact_main = filled({n}, 1), gradient = floats(numbers.gradient), exact_v = floats(numbers.v);
        const AdamwSlice rounded{main, m, v, main, gradient, 0.1, place, key};
        const AdamwSlice exact{exact_main, floats(numbers.m), exact_v, exact_main, gradient, 0.1};
        k.optimizer.adamw(stream, std::array{exact, rounded}, halving, {});
        expect_rounded(numbers, m, v, place, key);
        const auto got_v = v.to_vector<bf16>();
        const auto unrounded_v = exact_v.to_vector<float>();
        int64_t not_nearest = 0;
        for (int64_t i = 0; i < n; ++i) not_nearest += got_v[i] != bf16(unrounded_v[i]);
        EXPECT_GT(not_nearest, n / 10);
        const auto updated = main.to_vector<float>(), expected = exact_main.to_vector<float>();
        for (int64_t i = 0; i < n; ++i)
          ASSERT_FLOAT_EQ(updated[i], expected[i]) << "the update must use the moments before rounding";
      }
}

// Tests more slices than a launch on a card can update (32).
TEST_P(Moments, AreRoundedByTheKeysOfTheirSlices) {
  for (const int count : {33, 70}) {
    std::vector<AdamwSlice> slices;
    for (int s = 0; s < count; ++s) {
      const Numbers numbers(5 + s);
      const Tensor main = filled({5 + s}, 1);
      slices.push_back({main, bf16s(numbers.m), bf16s(numbers.v), main, floats(numbers.gradient), 0.1,
                        GlobalIndex{.first = 100 * s}, key + static_cast<uint32_t>(s)});
    }
    k.optimizer.adamw(stream, slices, halving, {});
    for (int s = 0; s < count; ++s) {
      SCOPED_TRACE(base::cat("slice ", s, " of ", count));
      expect_rounded(Numbers(5 + s), slices[s].m, slices[s].v, slices[s].place, slices[s].rounding_key);
    }
  }
}

// A step changes each moment by at most 0.001. Rounding to nearest would keep the first values forever.
TEST_P(Moments, SmallChangesAddUp) {
  constexpr int64_t n = 4096, steps = 300;
  const Tensor main = filled({n}, 1), none = filled({n}, 0), one = filled({n}, 1);
  const Tensor falling_m = bf16s(Floats(n, 1)), falling_v = bf16s(Floats(n, 1)), rising_m = bf16s(Floats(n, 0.75f)),
               rising_v = bf16s(Floats(n, 0.75f));
  for (int64_t t = 1; t <= steps; ++t) {
    const auto random = random_bits(key, static_cast<uint32_t>(t));
    const std::array slices{AdamwSlice{main, falling_m, falling_v, main, none, 0, {}, random},
                            AdamwSlice{main, rising_m, rising_v, main, one, 0, {}, ~random}};
    k.optimizer.adamw(stream, slices, {.lr = 0, .beta1 = 0.999, .beta2 = 0.999, .eps = 1e-8, .step = t}, {});
  }
  const double left = std::pow(0.999, steps);
  constexpr double allowed = 0.005;  // more than ten standard deviations of the mean of n random walks
  EXPECT_NEAR(mean(falling_m), left, allowed);
  EXPECT_NEAR(mean(falling_v), left, allowed);
  EXPECT_NEAR(mean(rising_m), 1 - 0.25 * left, allowed);
  EXPECT_NEAR(mean(rising_v), 1 - 0.25 * left, allowed);
}

TEST_P(Moments, AreNotRoundedInASkippedStep) {
  const Tensor main = filled({3}, 1), m = bf16s({1, 2, 3}), v = bf16s({4, 5, 6});
  const AdamwSlice slice{main, m, v, main, filled({3}, nan), 0.1, {}, key};
  k.optimizer.adamw(stream, {&slice, 1}, {.lr = 1, .beta1 = 0.9, .beta2 = 0.9, .eps = 1e-8, .step = 1}, doubles({-1}));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(static_cast<float>(m.to_vector<bf16>()[i]), static_cast<float>(1 + i));
    EXPECT_EQ(static_cast<float>(v.to_vector<bf16>()[i]), static_cast<float>(4 + i));
  }
}

TEST_P(Moments, AreRefusedInDifferentDtypesOrForF64Weights) {
  const AdamwStep step{.lr = 1, .beta1 = 0.9, .beta2 = 0.9, .eps = 1e-8, .step = 1};
  const Tensor main = filled({3}, 1), narrow = bf16s({1, 2, 3}), wide = doubles({1, 2, 3});
  const AdamwSlice mixed{main, narrow, filled({3}, 1), main, filled({3}, 1), 0};
  EXPECT_THROW(k.optimizer.adamw(stream, {&mixed, 1}, step, {}), std::logic_error);
  const AdamwSlice exact{wide, narrow, narrow, wide, wide, 0};
  EXPECT_THROW(k.optimizer.adamw(stream, {&exact, 1}, step, {}), std::logic_error);
}

}  // namespace
}  // namespace hexad::tests
