#include "framework/kernels/kernel_table.h"
#include "framework/kernels/reference/array.h"

namespace hexad::kernels::reference {
namespace {

void shift(Stream& stream, const Tensor& out, const Tensor& x, int64_t by) {
  stream.run([=] {
    Array Y = load(x);
    for (double& y : Y.values)
      if (y >= 0) y += static_cast<double>(by);
    store(out, Y);
  });
}

void within(Stream& stream, const Tensor& out, const Tensor& x, int64_t first, int64_t count) {
  stream.run([=] {
    Array Y = load(x);
    for (int64_t i = 0; i < Y.size(); ++i) {
      const int64_t at = index_at(Y, i) - first;
      Y[i] = at >= 0 && at < count ? static_cast<double>(at) : -1;
    }
    store(out, Y);
  });
}

void shift_parts(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& parts) {
  stream.run([=] {
    const Array Parts = load(parts);
    Array Y = load(x);
    for (double& y : Y.values) {
      if (y < 0) continue;
      int64_t p = 0;
      while (Parts(0, p) <= y) ++p;
      y += Parts(1, p);
    }
    store(out, Y);
  });
}

void iota_parts(Stream& stream, const Tensor& out, const Tensor& parts) {
  stream.run([=] {
    const Array Parts = load(parts);
    Array Y = zeros(out);
    for (int64_t i = 0; i < Y.size(); ++i) {
      int64_t p = 0;
      while (index_at(Parts, p) <= i) ++p;
      Y[i] = static_cast<double>(i) + Parts(1, p);
    }
    store(out, Y);
  });
}

void take(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& index) {
  stream.run([=] {
    const Array X = load(x);
    Array Y = load(index);
    for (int64_t i = 0; i < Y.size(); ++i) Y[i] = X[index_at(Y, i)];
    store(out, Y);
  });
}

void inverse(Stream& stream, const Tensor& out, const Tensor& x) {
  stream.run([=] {
    const Array X = load(x);
    Array Y = load(out);
    for (int64_t i = 0; i < X.size(); ++i)
      if (X[i] >= 0) Y[index_at(X, i)] = static_cast<double>(i);
    store(out, Y);
  });
}

}  // namespace
}  // namespace hexad::kernels::reference

namespace hexad::kernels {

const IndexKernels IndexKernels::of_reference{.shift = reference::shift,
                                              .within = reference::within,
                                              .shift_parts = reference::shift_parts,
                                              .iota_parts = reference::iota_parts,
                                              .take = reference::take,
                                              .inverse = reference::inverse};

}  // namespace hexad::kernels
