// Grouped products on cards for which there is no grouped kernel: one cuBLASLt product per group.
#include "framework/kernels/cuda/products/grouped_passes.h"
#include "framework/kernels/kernel_table.h"
#include "framework/tensor/host_read.h"

namespace hexad::kernels::cuda::tensor_cores {

using namespace tensor;
namespace {

/// Calls f(w of group e, rows of x, rows of y) for each group e that has rows.
template <class F>
void for_each_group(Stream& stream, const Tensor& x, const Tensor& y, const Tensor& w, const Tensor& offsets,
                    const F& f) {
  const HostRead read = read_to_host("grouped products: offsets", offsets, stream);
  const std::span<const int64_t> rows = read.wait<int64_t>();
  for (int64_t e = 0; e < w.dim(0); ++e) {
    const int64_t begin = rows[e], end = rows[e + 1];
    if (begin < end) f(expert_matrix(w, e), x.slice(0, begin, end), y.slice(0, begin, end));
  }
}

}  // namespace

const bool in_one_kernel = false;
const SwigluForward swiglu_forward = nullptr;
const SwigluBackward swiglu_backward = nullptr;

void forward(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& w, const Tensor& offsets, Write write) {
  for_each_group(stream, x, out, w, offsets, [&](const Tensor& weight, const Tensor& in, const Tensor& result) {
    MatmulKernels::of_cuda.forward(stream, result, in, weight, write);
  });
}

void input_gradient(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& w, const Tensor& offsets,
                    Write write) {
  for_each_group(stream, dx, dy, w, offsets, [&](const Tensor& weight, const Tensor& result, const Tensor& in) {
    MatmulKernels::of_cuda.input_gradient(stream, result, in, weight, write);
  });
}

void weight_gradient(Stream& stream, const Tensor& dw, const Tensor& dy, const Tensor& x, const Tensor& offsets,
                     Write write) {
  for_each_group(stream, x, dy, dw, offsets, [&](const Tensor& result, const Tensor& in, const Tensor& dout) {
    MatmulKernels::of_cuda.weight_gradient(stream, result, dout, in, write);
  });
}

void weight_gradient_bf16(Stream& stream, const Tensor& dw, const Tensor& dy, const Tensor& x, const Tensor& offsets,
                          Write write) {
  weight_gradient(stream, dw, dy, x, offsets, write);
}

}  // namespace hexad::kernels::cuda::tensor_cores
