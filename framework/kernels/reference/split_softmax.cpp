#include <algorithm>
#include <limits>

#include "framework/kernels/kernel_table.h"
#include "framework/kernels/reference/array.h"

namespace hexad::kernels::reference {

using namespace base;
namespace {

using Split = SplitSoftmaxKernels;

bool holds(int64_t column, const Array& columns) { return column >= 0 && column < columns.columns; }

void start(Stream& stream, const Tensor& statistics, const Tensor& logits, const Tensor& targets, int64_t first) {
  stream.run([=] {
    const Array Target = load(targets);
    Array X = load(logits), Out = zeros(statistics);
    for (int64_t t = 0; t < X.rows; ++t) {
      const int64_t column = index_at(Target, t) - first;
      if (holds(column, X)) Out(Split::at_target, t) = X(t, column);
      // m is finite even if every logit is -inf, so that the exponentials of such logits are 0 and not NaN.
      double m = logits.dtype() == Dtype::f64 ? std::numeric_limits<double>::lowest()
                                              : static_cast<double>(std::numeric_limits<float>::lowest());
      for (int64_t v = 0; v < X.columns; ++v) m = std::max(m, X(t, v));
      for (int64_t v = 0; v < X.columns; ++v) X(t, v) = std::exp(X(t, v) - m);
      Out(Split::largest, t) = m;
      for (int64_t v = 0; v < X.columns; ++v) Out(Split::total, t) += X(t, v);
    }
    store(statistics, Out);
    if (logits.dtype() != Dtype::bf16) store(logits, X);
  });
}

void finish(Stream& stream, const Tensor& losses, const Tensor& logits, const Tensor& statistics, int64_t rank,
            const Tensor& targets, int64_t first, double scale) {
  stream.run([=] {
    const Array Target = load(targets), Given = load(statistics);
    Array X = load(logits), L = zeros(losses);
    const int64_t ranks = statistics.dim(0);
    for (int64_t t = 0; t < X.rows; ++t) {
      const auto of = [&](int64_t r, Split::Statistic what) { return Given(r * Split::statistics_count + what, t); };
      double m = of(0, Split::largest), total = 0, logit = 0;
      for (int64_t r = 1; r < ranks; ++r) m = std::max(m, of(r, Split::largest));
      for (int64_t r = 0; r < ranks; ++r) {
        total += of(r, Split::total) * std::exp(of(r, Split::largest) - m);
        logit += of(r, Split::at_target);
      }
      const bool ignored = index_at(Target, t) < 0, gradient = !ignored && scale != 0;
      L[t] = ignored ? 0 : std::log(total) - (logit - m);
      const double own = of(rank, Split::largest), factor = std::exp(own - m) / total;
      for (int64_t v = 0; v < X.columns; ++v) {
        const double e = logits.dtype() == Dtype::bf16 ? std::exp(X(t, v) - own) : X(t, v);
        X(t, v) = gradient ? scale * (e * factor - (first + v == index_at(Target, t) ? 1 : 0)) : 0;
      }
    }
    store(losses, L);
    store(logits, X);
  });
}

}  // namespace
}  // namespace hexad::kernels::reference

namespace hexad::kernels {

const SplitSoftmaxKernels SplitSoftmaxKernels::of_reference{.start = reference::start, .finish = reference::finish};

}  // namespace hexad::kernels
