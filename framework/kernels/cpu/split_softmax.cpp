#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "framework/kernels/cpu/operands.h"
#include "framework/kernels/cpu/simd/activation_loops.h"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cpu {
namespace {

using Split = SplitSoftmaxKernels;

// Reduces x[0 .. n) with f in 16 lanes, so that the compiler can use vectors. Every lane and the result begin with
// `start`. The order of reduction is fixed, but differs from the order of a plain loop.
template <class A, class F>
A fold(const A* x, int64_t n, A start, const F& f) {
  constexpr int64_t lanes = 16;
  std::array<A, lanes> lane;
  lane.fill(start);
  const int64_t whole = n / lanes * lanes;
  for (int64_t i = 0; i < whole; i += lanes)
    for (int64_t j = 0; j < lanes; ++j) lane[j] = f(lane[j], x[i + j]);
  A result = start;
  for (const A value : lane) result = f(result, value);
  for (int64_t i = whole; i < n; ++i) result = f(result, x[i]);
  return result;
}

// The columns of the vocabulary that this rank holds.
struct Columns {
  int64_t first, count;
  bool hold(int64_t target) const { return first <= target && target < first + count; }
};

void start(Stream& stream, const Tensor& statistics, const Tensor& logits, const Tensor& targets, int64_t first) {
  stream.run([=] {
    const int64_t rows = logits.dim(0);
    const Columns columns{first, logits.dim(1)};
    require_flat("split_softmax", "logits", logits, rows * columns.count);
    require_flat("split_softmax", "statistics", statistics, Split::statistics_count * rows);
    require_flat("split_softmax", "targets", targets, rows);
    with_dtype<float, double>("split_softmax", logits.dtype(), [&]<class A>() {
      const auto exp = choose<A>(v3::activation_loops, v4::activation_loops).exp;
      const int32_t* target = targets.data<int32_t>();
      A *x = logits.data<A>(), *out = statistics.data<A>();
      parallel_for(rows, row_grain(columns.count), [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
          A* row = x + t * columns.count;
          out[Split::at_target * rows + t] = columns.hold(target[t]) ? row[target[t] - columns.first] : A(0);
          // m is finite even if every logit is -inf, so that the exponentials of such logits become 0 and not NaN. The
          // maximum ignores NaN, but the sum becomes NaN.
          const A m =
              fold(row, columns.count, std::numeric_limits<A>::lowest(), [](A a, A b) { return b > a ? b : a; });
          for (int64_t v = 0; v < columns.count; ++v) row[v] -= m;
          exp(row, columns.count);
          out[Split::largest * rows + t] = m;
          out[Split::total * rows + t] = fold(row, columns.count, A(0), [](A a, A b) { return a + b; });
        }
      });
    });
  });
}

void finish(Stream& stream, const Tensor& losses, const Tensor& logits, const Tensor& statistics, int64_t rank,
            const Tensor& targets, int64_t first, double scale) {
  stream.run([=] {
    const int64_t ranks = statistics.dim(0), rows = logits.dim(0);
    const Columns columns{first, logits.dim(1)};
    require(0 <= rank && rank < ranks, "[split_softmax] rank is ", rank, "; expected a whole number from 0 to ",
            ranks - 1);
    require_flat("split_softmax", "logits", logits, rows * columns.count);
    require_flat("split_softmax", "statistics", statistics, ranks * Split::statistics_count * rows);
    require_flat("split_softmax", "targets", targets, rows);
    require_flat("split_softmax", "losses", losses, rows);
    with_dtype<float, double>("split_softmax", logits.dtype(), [&]<class A>() {
      const int32_t* target = targets.data<int32_t>();
      const A* given = statistics.data<A>();
      A *x = logits.data<A>(), *loss = losses.data<A>();
      parallel_for(rows, row_grain(columns.count), [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
          const auto of = [&](int64_t r, Split::Statistic what) {
            return given[(r * Split::statistics_count + what) * rows + t];
          };
          A m = of(0, Split::largest), total = 0, logit = 0;
          for (int64_t r = 1; r < ranks; ++r) m = std::max(m, of(r, Split::largest));
          for (int64_t r = 0; r < ranks; ++r) {
            total += of(r, Split::total) * std::exp(of(r, Split::largest) - m);
            logit += of(r, Split::at_target);
          }
          const bool ignored = target[t] < 0;
          loss[t] = ignored ? A(0) : std::log(total) - (logit - m);
          A* row = x + t * columns.count;
          if (ignored || scale == 0) {
            std::fill_n(row, columns.count, A(0));
            continue;
          }
          const A factor = static_cast<A>(scale) * std::exp(of(rank, Split::largest) - m) / total;
          for (int64_t v = 0; v < columns.count; ++v) row[v] *= factor;
          if (columns.hold(target[t])) row[target[t] - columns.first] -= static_cast<A>(scale);
        }
      });
    });
  });
}

}  // namespace
}  // namespace hexad::kernels::cpu

namespace hexad::kernels {

const SplitSoftmaxKernels SplitSoftmaxKernels::of_cpu{.start = cpu::start, .finish = cpu::finish};

}  // namespace hexad::kernels
