// Sinks of attention. One warp computes one head of one row.
#include "framework/kernels/cuda/vectors.cuh"
#include "framework/kernels/kernel_table.h"
#include "framework/kernels/operand_checks.h"

namespace hexad::kernels::cuda {

using namespace base;
namespace {

constexpr int warps = 8, threads = warps * warp_size;

template <class D>
__global__ void __launch_bounds__(threads)
    forward_kernel(Rows<D> out, sum_t<D>* log_sum_exp, const sum_t<D>* sinks, int64_t heads) {
  using A = sum_t<D>;
  const int64_t r = int64_t{blockIdx.x} * warps + threadIdx.x / warp_size;
  if (r >= out.count) return;
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const A keys = log_sum_exp[r], sink = sinks[r % heads];
  const A top = keys < sink ? sink : keys;
  const A both = top + log(exp(keys - top) + exp(sink - top));
  const A share = exp(keys - both);
  D* const row = row_at(out, r);
  for (int64_t c = lane; c < out.width; c += warp_size) row[c] = to<D>(to<A>(row[c]) * share);
  __syncwarp();  // waits until all lanes have read the previous log_sum_exp[r]
  if (lane == 0) log_sum_exp[r] = both;
}

template <class D>
__global__ void __launch_bounds__(threads)
    backward_kernel(sum_t<D>* dsinks, Rows<D> dout, Rows<D> out, const sum_t<D>* log_sum_exp, const sum_t<D>* sinks,
                    int64_t heads) {
  using A = sum_t<D>;
  const int64_t r = int64_t{blockIdx.x} * warps + threadIdx.x / warp_size;
  if (r >= out.count) return;
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const D *const dy = row_at(dout, r), *const y = row_at(out, r);
  A dot = 0;
  for (int64_t c = lane; c < out.width; c += warp_size) dot += to<A>(dy[c]) * to<A>(y[c]);
  dot = warp_sum(dot);
  if (lane == 0) dsinks[r] = -exp(sinks[r % heads] - log_sum_exp[r]) * dot;
}

void forward(Stream& stream, const Tensor& out, const Tensor& log_sum_exp, const Tensor& sinks) {
  check_sinks(out, log_sum_exp, sinks);
  with_dtype<float, bf16, double>("sink", out.dtype(), [&]<class T>() {
    using D = device_t<T>;
    using A = accumulator_t<T>;
    const Rows<D> rows = rows_of<T>("sink", out);
    launch("sink", forward_kernel<D>, blocks_of(rows.count, warps), threads, stream, rows, pointer<A>(log_sum_exp),
           pointer<A>(sinks), out.dim(1));
  });
}

void backward(Stream& stream, const Tensor& dsinks, const Tensor& dout, const Tensor& out, const Tensor& log_sum_exp,
              const Tensor& sinks) {
  check_sinks(out, log_sum_exp, sinks);
  require_shape("sink", "dout", dout, out.shape());
  require_flat("sink", "dsinks", dsinks, log_sum_exp.numel());
  with_dtype<float, bf16, double>("sink", out.dtype(), [&]<class T>() {
    using D = device_t<T>;
    using A = accumulator_t<T>;
    const Rows<D> rows = rows_of<T>("sink", out);
    launch("sink", backward_kernel<D>, blocks_of(rows.count, warps), threads, stream, pointer<A>(dsinks),
           rows_of<T>("sink", dout), rows, pointer<A>(log_sum_exp), pointer<A>(sinks), out.dim(1));
  });
}

}  // namespace
}  // namespace hexad::kernels::cuda

namespace hexad::kernels {

const SinkKernels SinkKernels::of_cuda{.forward = cuda::forward, .backward = cuda::backward};

}  // namespace hexad::kernels
