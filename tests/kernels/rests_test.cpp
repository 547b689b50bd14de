// AdamW with main weights that are stored as rests (framework/base/main_weight.h). All results equal the results with
// f32 main weights.
#include <bit>
#include <cmath>
#include <vector>

#include "framework/base/main_weight.h"
#include "tests/kernels/edge.h"

namespace hexad::tests {

using namespace base;
using namespace kernels;
namespace {

constexpr AdamwStep step_of(double lr) { return {.lr = lr, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .step = 3}; }

/// Returns main weights. Every fourth weight is exactly between two bf16 numbers, and about half of these weights are
/// rounded up. The lower halves of the other weights take many values.
Floats mains(int64_t n) {
  Floats out;
  for (int64_t i = 0; i < n; ++i) {
    const auto upper = static_cast<uint32_t>(0x3d00 + i / 4 * 37 % 0x0300) | (i % 3 == 0 ? 0x8000u : 0u);
    const auto lower = i % 4 == 0 ? 0x8000u : static_cast<uint32_t>(i * 40503) & 0xffffu;
    out.push_back(std::bit_cast<float>(upper << 16 | lower));
  }
  return out;
}

class Rests : public EdgeTest {
 protected:
  // Returns `values` in a tensor that begins at element `skipped` of its memory.
  Tensor flat(const Floats& values, Dtype dtype, int64_t skipped) {
    const auto n = static_cast<int64_t>(values.size());
    Floats all(skipped);
    all.insert(all.end(), values.begin(), values.end());
    const Tensor out = empty({skipped + n}, dtype);
    k.pointwise.copy(stream, out, tensor(all, {skipped + n}));
    return out.slice(0, skipped, skipped + n);
  }
  /// Returns a slice with f32 main weights.
  AdamwSlice plain(const Floats& main, Dtype moments, Dtype gradient, int64_t skipped) {
    Floats m, v, g;
    for (size_t i = 0; i < main.size(); ++i) {
      const auto x = static_cast<float>(i);
      m.push_back(0.01f * std::sin(x)), v.push_back(1e-4f * (1 + std::cos(x))), g.push_back(0.02f * std::sin(3 * x));
    }
    return {.main = flat(main, Dtype::f32, skipped),
            .m = flat(m, moments, skipped),
            .v = flat(v, moments, skipped),
            .weights = flat(main, Dtype::bf16, skipped),
            .gradient = flat(g, gradient, skipped),
            .weight_decay = 0.1,
            .place = {.begin = 5, .first = 11, .run = 13, .stride = 40},
            .rounding_key = 0x2545f491};
  }
  /// Returns the slice of plain(), but with main weights stored as rests.
  AdamwSlice with_rests(const Floats& main, Dtype moments, Dtype gradient, int64_t skipped) {
    AdamwSlice s = plain(main, moments, gradient, skipped);
    const auto n = static_cast<int64_t>(main.size());
    std::vector<bf16> rests(skipped + n);
    for (int64_t i = 0; i < n; ++i) rests[skipped + i].bits = rest_of(main[i]);
    s.main = tensor(rests, {skipped + n}).slice(0, skipped, skipped + n);
    Floats signs;
    const auto v = values(s.v);
    for (int64_t i = 0; i < n; ++i) signs.push_back(marked(main[i]) ? -v[i] : v[i]);
    s.v = flat(signs, moments, skipped);
    return s;
  }
  Floats values(const Tensor& t) {
    if (t.dtype() == Dtype::f32) return t.to_vector<float>();
    Floats out;
    for (const bf16 x : t.to_vector<bf16>()) out.push_back(static_cast<float>(x));
    return out;
  }
  // Expects both slices to have bitwise identical main weights, weights and moments. Returns the number of second
  // moments whose sign is a mark (framework/base/main_weight.h).
  int64_t expect_same(const AdamwSlice& plain, const AdamwSlice& rests) {
    const Floats main = values(plain.main), v = values(plain.v), signed_v = values(rests.v);
    const auto lower = rests.main.to_vector<bf16>(), weights = rests.weights.to_vector<bf16>();
    EXPECT_EQ(weights, plain.weights.to_vector<bf16>());
    EXPECT_EQ(values(rests.m), values(plain.m));
    int64_t marks = 0, different = 0;
    for (size_t i = 0; i < main.size(); ++i) {
      const bool mark = std::signbit(signed_v[i]);
      const float joined = main_of(weights[i].bits, lower[i].bits, mark);
      marks += mark;
      different +=
          std::bit_cast<uint32_t>(joined) != std::bit_cast<uint32_t>(main[i]) || std::fabs(signed_v[i]) != v[i];
    }
    EXPECT_EQ(different, 0) << "main weights or second moments differ; number compared: " << main.size();
    return marks;
  }
};
INSTANTIATE_TEST_SUITE_P(Kernels, Rests, ::testing::ValuesIn(backends_under_test()),
                         [](const auto& p) { return p.param.name; });

// Main weights do not change if the learning rate is zero, so ties remain ties. The largest size exceeds the 16384
// elements of a block on a card, and the 1024 elements of a buffer on the CPU.
TEST_P(Rests, GiveBitwiseTheUpdatesOfF32MainWeights) {
  for (const int64_t n : {1, 1027, 40'003})
    for (const Dtype moments : {Dtype::f32, Dtype::bf16})
      for (const Dtype gradient : {Dtype::f32, Dtype::bf16})
        for (const int64_t skipped : {0, 1})
          for (const double lr : {0.0, 0.01}) {
            SCOPED_TRACE(
                cat(n, " elements, moments ", moments, ", gradient ", gradient, ", skipped ", skipped, ", lr ", lr));
            const Floats main = mains(n);
            const AdamwSlice all = plain(main, moments, gradient, skipped),
                             rests = with_rests(main, moments, gradient, skipped);
            for (const Tensor& factor : {Tensor{}, doubles({0.5})})
              k.optimizer.adamw(stream, std::array{all, rests}, step_of(lr), factor);
            const int64_t marks = expect_same(all, rests);
            if (lr == 0 && n > 1) {
              EXPECT_GT(marks, n / 16) << "too few ties are rounded up for this test";
            }
          }
}

// The weights include ties that round to zero, to a normal number and to infinity. All moments are zero, so the second
// moments contain only the marks.
TEST_P(Rests, KeepExtremeMainWeightsWithZeroMoments) {
  Floats main;
  for (const uint32_t bits : {0x00000000u, 0x00000001u, 0x00008000u, 0x00008001u, 0x00018000u, 0x007f8000u, 0x007fffffu,
                              0x3f808000u, 0x3f818000u, 0x7f7e8000u, 0x7f7f7fffu, 0x7f7f8000u, 0x7f7fffffu})
    for (const uint32_t sign : {0u, 0x80000000u}) main.push_back(std::bit_cast<float>(bits | sign));
  for (const Dtype moments : {Dtype::f32, Dtype::bf16}) {
    SCOPED_TRACE(moments);
    AdamwSlice all = plain(main, moments, Dtype::f32, 0), rests = with_rests(main, moments, Dtype::f32, 0);
    const Floats zeros(main.size(), 0.0f);
    Floats signs = zeros;
    for (size_t i = 0; i < main.size(); ++i)
      if (marked(main[i])) signs[i] = -0.0f;
    for (AdamwSlice* s : {&all, &rests}) s->m = flat(zeros, moments, 0), s->gradient = flat(zeros, Dtype::f32, 0);
    all.v = flat(zeros, moments, 0), rests.v = flat(signs, moments, 0);
    for (int step = 0; step < 2; ++step) {
      k.optimizer.adamw(stream, std::array{all, rests}, step_of(0), {});
      EXPECT_EQ(expect_same(all, rests), 8) << "eight ties are rounded away from zero";
    }
    const Floats after = values(all.main);
    for (size_t i = 0; i < main.size(); ++i)
      EXPECT_EQ(std::bit_cast<uint32_t>(after[i]), std::bit_cast<uint32_t>(main[i])) << i;
  }
}

TEST_P(Rests, AreNotChangedInASkippedStep) {
  const Floats main = mains(37);
  const AdamwSlice all = plain(main, Dtype::f32, Dtype::f32, 0), rests = with_rests(main, Dtype::f32, Dtype::f32, 0);
  k.optimizer.adamw(stream, {&rests, 1}, step_of(1), doubles({-1}));
  EXPECT_GT(expect_same(all, rests), 0);
}

// Tests more slices than a launch on a card can update (32 or 48).
TEST_P(Rests, ManySlicesAreUpdatedTogether) {
  std::vector<AdamwSlice> all, rests;
  for (int64_t s = 0; s < 70; ++s) {
    const Floats main = mains(5 + s);
    all.push_back(plain(main, Dtype::f32, Dtype::f32, 0));
    rests.push_back(with_rests(main, Dtype::f32, Dtype::f32, 0));
  }
  k.optimizer.adamw(stream, all, step_of(0.01), {});
  k.optimizer.adamw(stream, rests, step_of(0.01), {});
  for (size_t s = 0; s < all.size(); ++s) {
    SCOPED_TRACE(cat("slice ", s));
    expect_same(all[s], rests[s]);
  }
}

TEST_P(Rests, AreRefusedIfTheyAreStrided) {
  if (GetParam().name == "reference") GTEST_SKIP() << "the reference accepts strided rests";
  AdamwSlice slice = with_rests(mains(3), Dtype::f32, Dtype::f32, 0);
  slice.main = empty({3, 2}, Dtype::bf16).slice(1, 0, 1);
  EXPECT_THROW(k.optimizer.adamw(stream, {&slice, 1}, step_of(1), {}), std::logic_error);
}

TEST_P(Rests, AreRefusedForWeightsOtherThanBf16) {
  AdamwSlice slice = with_rests(mains(3), Dtype::f32, Dtype::f32, 0);
  slice.weights = filled({3}, 1);
  EXPECT_THROW(k.optimizer.adamw(stream, {&slice, 1}, step_of(1), {}), std::logic_error);
  slice.weights = slice.main;
  EXPECT_THROW(k.optimizer.adamw(stream, {&slice, 1}, step_of(1), {}), std::logic_error);
}

}  // namespace
}  // namespace hexad::tests
