#include "framework/kernels/kernel_table.h"
#include "framework/kernels/reference/array.h"

namespace hexad::kernels::reference {
namespace {

void add_row(const Tensor& x, const Tensor& bias) {
  const Array B = load(bias);
  Array X = load(x);
  for (int64_t t = 0; t < X.rows; ++t)
    for (int64_t n = 0; n < X.columns; ++n) X(t, n) += B[n];
  store(x, X);
}

void add_column_sums(const Tensor& dbias, const Tensor& dy) {
  const Array DY = load(dy);
  Array DB = load(dbias);
  for (int64_t t = 0; t < DY.rows; ++t)
    for (int64_t n = 0; n < DY.columns; ++n) DB[n] += DY(t, n);
  store(dbias, DB);
}

void forward(Stream& stream, const Tensor& x, const Tensor& bias) {
  stream.run([=] { add_row(x, bias); });
}

void backward(Stream& stream, const Tensor& dbias, const Tensor& dy) {
  stream.run([=] { add_column_sums(dbias, dy); });
}

void grouped_forward(Stream& stream, const Tensor& x, const Tensor& bias, const GroupOffsets& offsets) {
  stream.run([=, groups = StoredOffsets(offsets)] {
    const std::vector<int64_t> o = groups.offsets();
    for (int64_t e = 0; e < bias.dim(0); ++e) add_row(x.slice(0, o[e], o[e + 1]), bias.slice(0, e, e + 1));
  });
}

void grouped_backward(Stream& stream, const Tensor& dbias, const Tensor& dy, const GroupOffsets& offsets) {
  stream.run([=, groups = StoredOffsets(offsets)] {
    const std::vector<int64_t> o = groups.offsets();
    for (int64_t e = 0; e < dbias.dim(0); ++e) add_column_sums(dbias.slice(0, e, e + 1), dy.slice(0, o[e], o[e + 1]));
  });
}

}  // namespace
}  // namespace hexad::kernels::reference

namespace hexad::kernels {

const BiasKernels BiasKernels::of_reference{.forward = reference::forward,
                                            .backward = reference::backward,
                                            .grouped_forward = reference::grouped_forward,
                                            .grouped_backward = reference::grouped_backward};

}  // namespace hexad::kernels
