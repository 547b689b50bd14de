#include "framework/kernels/kernel_table.h"
#include "framework/kernels/reference/array.h"

namespace hexad::kernels::reference {
namespace {

void multiply(const Tensor& out, const Tensor& a, const Tensor& b) {
  const Array A = load(a);
  Array Y = load(b);
  for (int64_t i = 0; i < Y.size(); ++i) Y[i] *= A[i];
  store(out, Y);
}

void forward(Stream& stream, const Tensor& out, const Tensor& a, const Tensor& b) {
  stream.run([=] { multiply(out, a, b); });
}

void backward(Stream& stream, const Tensor& da, const Tensor& db, const Tensor& dout, const Tensor& a,
              const Tensor& b) {
  stream.run([=] {
    multiply(da, dout, b);
    multiply(db, dout, a);
  });
}

}  // namespace
}  // namespace hexad::kernels::reference

namespace hexad::kernels {

const MultiplyKernels MultiplyKernels::of_reference{.forward = reference::forward, .backward = reference::backward};

}  // namespace hexad::kernels
