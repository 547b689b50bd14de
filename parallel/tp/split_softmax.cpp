#include "parallel/tp/split_softmax.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "framework/kernels/cpu/parallel.h"
#include "framework/kernels/cpu/simd/activation_loops.h"

namespace hexad::tp {
namespace {

using kernels::cpu::parallel_for, kernels::cpu::row_grain;

// Folds x[0 .. n) from `start`, in lanes that the compiler may put into one vector: an order of its own, but a fixed
// one.
template <class A, class F>
A fold(const A* x, int64_t n, A start, const F& f) {
  constexpr int64_t lanes = 16;
  std::array<A, lanes> lane;
  lane.fill(start);
  const int64_t whole = n / lanes * lanes;
  for (int64_t i = 0; i < whole; i += lanes)
    for (int64_t j = 0; j < lanes; ++j) lane[static_cast<size_t>(j)] = f(lane[static_cast<size_t>(j)], x[i + j]);
  A result = start;
  for (const A value : lane) result = f(result, value);
  for (int64_t i = whole; i < n; ++i) result = f(result, x[i]);
  return result;
}

}  // namespace

void start_softmax(Stream& stream, const Tensor& statistics, const Tensor& logits, const Tensor& targets,
                   const VocabularyPart& part) {
  stream.run([=] {
    with_dtype<float, double>("split_softmax", logits.dtype(), [&]<class A>() {
      const int64_t rows = logits.dim(0), columns = logits.dim(1);
      const auto exp =
          kernels::cpu::choose<A>(kernels::cpu::v3::activation_loops, kernels::cpu::v4::activation_loops).exp;
      const int32_t* target = targets.data<int32_t>();
      A *x = logits.data<A>(), *out = statistics.data<A>();
      parallel_for(rows, row_grain(columns), [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
          A* row = x + t * columns;
          out[at_target * rows + t] = part.holds(target[t]) ? row[target[t] - part.begin] : A(0);
          // Finite even when every logit is -inf, so that those become 0 and not NaN. A NaN passes by here and is
          // found in the sum.
          const A m = fold(row, columns, std::numeric_limits<A>::lowest(), [](A a, A b) { return b > a ? b : a; });
          for (int64_t v = 0; v < columns; ++v) row[v] -= m;
          exp(row, columns);
          out[largest * rows + t] = m;
          out[sum * rows + t] = fold(row, columns, A(0), [](A a, A b) { return a + b; });
        }
      });
    });
  });
}

void finish_softmax(Stream& stream, const Tensor& losses, const Tensor& logits, const Tensor& statistics, int rank,
                    const Tensor& targets, const VocabularyPart& part, double scale) {
  stream.run([=] {
    with_dtype<float, double>("split_softmax", logits.dtype(), [&]<class A>() {
      const int64_t ranks = statistics.dim(0), rows = logits.dim(0), columns = logits.dim(1);
      const int32_t* target = targets.data<int32_t>();
      const A* given = statistics.data<A>();
      A *x = logits.data<A>(), *loss = losses.data<A>();
      parallel_for(rows, row_grain(columns), [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
          const auto of = [&](int64_t r, SplitSoftmaxRow what) {
            return given[(r * statistics_count + what) * rows + t];
          };
          A m = of(0, largest), total = 0, logit = 0;
          for (int64_t r = 1; r < ranks; ++r) m = std::max(m, of(r, largest));
          for (int64_t r = 0; r < ranks; ++r) {
            total += of(r, sum) * std::exp(of(r, largest) - m);
            logit += of(r, at_target);
          }
          const bool ignored = target[t] < 0;
          loss[t] = ignored ? A(0) : std::log(total) - (logit - m);
          A* row = x + t * columns;
          if (ignored || scale == 0) {
            std::fill_n(row, columns, A(0));
            continue;
          }
          const A factor = static_cast<A>(scale) * std::exp(of(rank, largest) - m) / total;
          for (int64_t v = 0; v < columns; ++v) row[v] *= factor;
          if (part.holds(target[t])) row[target[t] - part.begin] -= static_cast<A>(scale);
        }
      });
    });
  });
}

}  // namespace hexad::tp
