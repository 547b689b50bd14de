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

// Replaces logits x[0 .. n) by e^(x - m).
template <class A>
void exponentials(A* x, int64_t n, A m) {
  for (int64_t v = 0; v < n; ++v) x[v] -= m;
  choose<A>(v3::activation_loops, v4::activation_loops).exp(x, n);
}

// A row of logits of dtype L in the accumulator type. If L is this type, the row is computed in place. Otherwise, it is
// computed in memory of this object.
template <class L>
class RowOfLogits {
 public:
  using A = base::accumulator_t<L>;

  explicit RowOfLogits(int64_t width) : width_(width), wide_(in_place ? 0 : width) {}

  A* read(L* row) {
    if constexpr (in_place) {
      return row;
    } else {
      const auto& convert = choose<A>(v3::pointwise_loops, v4::pointwise_loops).convert;
      convert.template from<L>()(wide_.data(), row, width_);
      return wide_.data();
    }
  }
  /// Writes the computed row, rounded to L, to `row`, the row that was read last.
  void write(L* row) const {
    if constexpr (!in_place)
      choose<L>(v3::pointwise_loops, v4::pointwise_loops).convert.template from<A>()(row, wide_.data(), width_);
  }

 private:
  static constexpr bool in_place = std::is_same_v<A, L>;
  int64_t width_;
  std::vector<A> wide_;
};

void start(Stream& stream, const Tensor& statistics, const Tensor& logits, const Tensor& targets, int64_t first) {
  stream.run([=] {
    const int64_t rows = logits.dim(0);
    const Columns columns{first, logits.dim(1)};
    require_flat("split_softmax", "logits", logits, rows * columns.count);
    require_flat("split_softmax", "statistics", statistics, Split::statistics_count * rows);
    require_flat("split_softmax", "targets", targets, rows);
    with_dtype<float, bf16, double>("split_softmax", logits.dtype(), [&]<class L>() {
      using A = base::accumulator_t<L>;
      const int32_t* target = targets.data<int32_t>();
      L* x = logits.data<L>();
      A* out = statistics.data<A>();
      parallel_for(rows, row_grain(columns.count), [&](int64_t begin, int64_t end) {
        RowOfLogits<L> work(columns.count);
        for (int64_t t = begin; t < end; ++t) {
          A* row = work.read(x + t * columns.count);
          out[Split::at_target * rows + t] = columns.hold(target[t]) ? row[target[t] - columns.first] : A(0);
          // m is finite even if every logit is -inf, so that the exponentials of such logits become 0 and not NaN. The
          // maximum ignores a NaN logit, but the sum then becomes NaN.
          const A m =
              fold(row, columns.count, std::numeric_limits<A>::lowest(), [](A a, A b) { return b > a ? b : a; });
          exponentials(row, columns.count, m);
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
    with_dtype<float, bf16, double>("split_softmax", logits.dtype(), [&]<class L>() {
      using A = base::accumulator_t<L>;
      const int32_t* target = targets.data<int32_t>();
      const A* given = statistics.data<A>();
      L* x = logits.data<L>();
      A* loss = losses.data<A>();
      parallel_for(rows, row_grain(columns.count), [&](int64_t begin, int64_t end) {
        RowOfLogits<L> work(columns.count);
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
          L* const place = x + t * columns.count;
          if (ignored || scale == 0) {
            std::fill_n(place, columns.count, L(0.0f));
            continue;
          }
          A* row = work.read(place);
          if constexpr (!std::is_same_v<A, L>) exponentials(row, columns.count, of(rank, Split::largest));
          const A factor = static_cast<A>(scale) * std::exp(of(rank, Split::largest) - m) / total;
          for (int64_t v = 0; v < columns.count; ++v) row[v] *= factor;
          if (columns.hold(target[t])) row[target[t] - columns.first] -= static_cast<A>(scale);
          work.write(place);
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
