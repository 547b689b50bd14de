#include "framework/kernels/cuda/vectors.cuh"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cuda {

using namespace base;
namespace {

template <class D>
struct Multiply {
  __device__ sum_t<D> operator()(D a, D b) const { return to<sum_t<D>>(a) * to<sum_t<D>>(b); }
};

void forward(Stream& stream, const Tensor& out, const Tensor& a, const Tensor& b) {
  const int64_t n = out.numel();
  for (const auto& [name, t] : {std::pair{"a result", out}, {"an operand", a}, {"an operand", b}})
    require_flat("multiply", name, t, n);
  with_dtype<float, bf16, double>("multiply", out.dtype(), [&]<class T>() {
    map("multiply", stream, Multiply<device_t<T>>{}, one_row(pointer<T>(out), n), one_row(pointer<T>(a), n),
        one_row(pointer<T>(b), n));
  });
}

void backward(Stream& stream, const Tensor& da, const Tensor& db, const Tensor& dout, const Tensor& a,
              const Tensor& b) {
  forward(stream, da, dout, b);
  forward(stream, db, dout, a);
}

}  // namespace
}  // namespace hexad::kernels::cuda

namespace hexad::kernels {

const MultiplyKernels MultiplyKernels::of_cuda{.forward = cuda::forward, .backward = cuda::backward};

}  // namespace hexad::kernels
