#include "framework/kernels/kernel_table.h"
#include "framework/kernels/reference/array.h"

namespace hexad::kernels::reference {
namespace {

void gather(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& tokens, const Tensor&) {
  stream.run([=] {
    const Array X = load(x), Token = load(tokens);
    Array Y = load(out);
    for (int64_t r = 0; r < Y.rows; ++r)
      for (int64_t d = 0; index_at(Token, r) >= 0 && d < Y.columns; ++d) Y(r, d) = X(index_at(Token, r), d);
    store(out, Y);
  });
}

void combine(Stream& stream, const Tensor& out, const Tensor& y, const Tensor& rows, const Tensor& weights,
             std::span<const Tensor> addends) {
  stream.run([=, addends = std::vector<Tensor>(addends.begin(), addends.end())] {
    const Array Y = load(y), Row = load(rows), W = weights.defined() ? load(weights) : Array{};
    Array Out = zeros(out);
    for (int64_t t = 0; t < Row.rows; ++t)
      for (int64_t k = 0; k < Row.columns; ++k) {
        const int64_t r = index_at(Row, t * Row.columns + k);
        if (r < 0) continue;
        const double w = weights.defined() ? W(t, k) : 1;
        for (int64_t d = 0; d < Out.columns; ++d) Out(t, d) += w * Y(r, d);
      }
    for (const Tensor& addend : addends) {
      const Array A = load(addend);
      for (int64_t i = 0; i < Out.size(); ++i) Out[i] += A[i];
    }
    store(out, Out);
  });
}

void combine_backward(Stream& stream, const Tensor& dy, const Tensor& dweights, const Tensor& dout, const Tensor& y,
                      const Tensor& rows, const Tensor&, const Tensor& weights) {
  stream.run([=] {
    const Array DOut = load(dout), Y = load(y), Row = load(rows), W = load(weights);
    Array DY = zeros(dy), DW = zeros(dweights);
    for (int64_t t = 0; t < Row.rows; ++t)
      for (int64_t k = 0; k < Row.columns; ++k) {
        const int64_t r = index_at(Row, t * Row.columns + k);
        if (r < 0) continue;
        for (int64_t d = 0; d < DY.columns; ++d) {
          DY(r, d) = W(t, k) * DOut(t, d);
          DW(t, k) += DOut(t, d) * Y(r, d);
        }
      }
    store(dy, DY);
    store(dweights, DW);
  });
}

void scatter(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& index) {
  stream.run([=] {
    const Array X = load(x), Row = load(index);
    Array Y = load(out);
    for (int64_t r = 0; r < X.rows; ++r)
      for (int64_t d = 0; index_at(Row, r) >= 0 && d < X.columns; ++d) Y(index_at(Row, r), d) = X(r, d);
    store(out, Y);
  });
}

void gather_weighted(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& index, const Tensor& scale) {
  stream.run([=] {
    const Array X = load(x), Row = load(index), Scale = scale.defined() ? load(scale) : Array{};
    Array Y = zeros(out);
    for (int64_t r = 0; r < Y.rows; ++r)
      for (int64_t d = 0; d < Y.columns; ++d) Y(r, d) = (scale.defined() ? Scale[r] : 1) * X(index_at(Row, r), d);
    store(out, Y);
  });
}

void row_dots(Stream& stream, const Tensor& out, const Tensor& a, const Tensor& b) {
  stream.run([=] {
    const Array A = load(a), B = load(b);
    Array Y = zeros(out);
    for (int64_t r = 0; r < A.rows; ++r)
      for (int64_t d = 0; d < A.columns; ++d) Y[r] += A(r, d) * B(r, d);
    store(out, Y);
  });
}

}  // namespace
}  // namespace hexad::kernels::reference

namespace hexad::kernels {

const PermuteKernels PermuteKernels::of_reference{.gather = reference::gather,
                                                  .combine = reference::combine,
                                                  .combine_backward = reference::combine_backward,
                                                  .scatter = reference::scatter,
                                                  .gather_weighted = reference::gather_weighted,
                                                  .row_dots = reference::row_dots};

}  // namespace hexad::kernels
