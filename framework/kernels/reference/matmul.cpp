#include "framework/kernels/kernel_table.h"
#include "framework/kernels/reference/array.h"

namespace hexad::kernels::reference {
namespace {

/// Returns the initial value of a result: the old value in mode `add`, otherwise zero.
Array start(const Tensor& t, Write write) { return write == Write::add ? load(t) : zeros(t); }

void product(const Tensor& out, const Tensor& x, const Tensor& w, Write write) {
  const Array X = load(x), W = load(w);
  Array Y = start(out, write);
  for (int64_t t = 0; t < X.rows; ++t)
    for (int64_t n = 0; n < W.rows; ++n)
      for (int64_t d = 0; d < W.columns; ++d) Y(t, n) += X(t, d) * W(n, d);
  store(out, Y);
}

void product_dx(const Tensor& dx, const Tensor& dy, const Tensor& w, Write write) {
  const Array DY = load(dy), W = load(w);
  Array DX = start(dx, write);
  for (int64_t t = 0; t < DY.rows; ++t)
    for (int64_t n = 0; n < W.rows; ++n)
      for (int64_t d = 0; d < W.columns; ++d) DX(t, d) += DY(t, n) * W(n, d);
  store(dx, DX);
}

void product_dw(const Tensor& dw, const Tensor& dy, const Tensor& x, Write write) {
  const Array DY = load(dy), X = load(x);
  Array DW = start(dw, write);
  for (int64_t t = 0; t < DY.rows; ++t)
    for (int64_t n = 0; n < DY.columns; ++n)
      for (int64_t d = 0; d < X.columns; ++d) DW(n, d) += DY(t, n) * X(t, d);
  store(dw, DW);
}

void forward(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& w, Write write) {
  stream.run([=] { product(out, x, w, write); });
}

void input_gradient(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& w, Write write) {
  stream.run([=] { product_dx(dx, dy, w, write); });
}

void weight_gradient(Stream& stream, const Tensor& dw, const Tensor& dy, const Tensor& x, Write write) {
  stream.run([=] { product_dw(dw, dy, x, write); });
}

/// Calls f(e, begin, end) with the range of rows of each expert.
template <class F>
void for_each_expert(Stream& stream, const GroupOffsets& offsets, F f) {
  stream.run([f, groups = StoredOffsets(offsets)] {
    const std::vector<int64_t> o = groups.offsets();
    for (size_t e = 0; e + 1 < o.size(); ++e) f(static_cast<int64_t>(e), o[e], o[e + 1]);
  });
}

void grouped_forward(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& w, const GroupOffsets& offsets,
                     Write write) {
  for_each_expert(stream, offsets, [=](int64_t e, int64_t begin, int64_t end) {
    product(out.slice(0, begin, end), x.slice(0, begin, end), expert_matrix(w, e), write);
  });
}

void grouped_input_gradient(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& w,
                            const GroupOffsets& offsets, Write write) {
  for_each_expert(stream, offsets, [=](int64_t e, int64_t begin, int64_t end) {
    product_dx(dx.slice(0, begin, end), dy.slice(0, begin, end), expert_matrix(w, e), write);
  });
}

void grouped_weight_gradient(Stream& stream, const Tensor& dw, const Tensor& dy, const Tensor& x,
                             const GroupOffsets& offsets, Write write) {
  for_each_expert(stream, offsets, [=](int64_t e, int64_t begin, int64_t end) {
    product_dw(expert_matrix(dw, e), dy.slice(0, begin, end), x.slice(0, begin, end), write);
  });
}

}  // namespace
}  // namespace hexad::kernels::reference

namespace hexad::kernels {

const MatmulKernels MatmulKernels::of_reference{.forward = reference::forward,
                                                .input_gradient = reference::input_gradient,
                                                .weight_gradient = reference::weight_gradient};
const GroupedMatmulKernels GroupedMatmulKernels::of_reference{.forward = reference::grouped_forward,
                                                              .input_gradient = reference::grouped_input_gradient,
                                                              .weight_gradient = reference::grouped_weight_gradient};

}  // namespace hexad::kernels
