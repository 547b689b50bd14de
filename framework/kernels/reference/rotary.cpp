#include "framework/kernels/kernel_table.h"
#include "framework/kernels/reference/array.h"

namespace hexad::kernels::reference {
namespace {

void rotate(const Tensor& out, const Tensor& x, const Array& P, const Array& Cos, const Array& Sin, double sign) {
  if (!x.defined()) return;
  const Array X = load(x);
  const int64_t heads = x.dim(1), half = Cos.columns;
  Array Y = X;
  for (int64_t row = 0; row < X.rows; ++row) {
    const int64_t p = index_at(P, row / heads);
    for (int64_t i = 0; i < half; ++i) {
      const double c = Cos(p, i), s = sign * Sin(p, i);
      Y(row, i) = X(row, i) * c - X(row, i + half) * s;
      Y(row, i + half) = X(row, i + half) * c + X(row, i) * s;
    }
  }
  store(out, Y);
}

void apply(Stream& stream, const QueriesAndKeys& out, const QueriesAndKeys& x, const Tensor& positions,
           const Tensor& cosine, const Tensor& sine, Direction direction) {
  stream.run([=] {
    const Array P = load(positions), Cos = load(cosine), Sin = load(sine);
    const double sign = direction == Direction::forward ? 1 : -1;
    rotate(out.q, x.q, P, Cos, Sin, sign);
    rotate(out.k, x.k, P, Cos, Sin, sign);
  });
}

}  // namespace
}  // namespace hexad::kernels::reference

namespace hexad::kernels {

const RotaryKernels RotaryKernels::of_reference{.apply = reference::apply};

}  // namespace hexad::kernels
