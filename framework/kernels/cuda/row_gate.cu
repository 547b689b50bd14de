// Gates of rows. One block computes one row.
#include "framework/kernels/cuda/vectors.cuh"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cuda {

using namespace base;
namespace {

constexpr int threads = 256;

template <class A>
__device__ __forceinline__ A gate_of(A logit) {
  return 1 / (1 + exp(-logit));
}

template <class D, int N>
__global__ void __launch_bounds__(threads) forward_kernel(Rows<D> out, Rows<D> x, const sum_t<D>* logits) {
  using A = sum_t<D>;
  const int64_t row = blockIdx.x;
  const A gate = gate_of(logits[row]);
  const D* in = row_at(x, row);
  D* y = row_at(out, row);
  for (int64_t c = int64_t{threadIdx.x} * N; c < x.width; c += int64_t{threads} * N) {
    Vector<D, N> v = load<N>(in + c);
#pragma unroll
    for (int e = 0; e < N; ++e) v.at[e] = to<D>(to<A>(v.at[e]) * gate);
    store(y + c, v);
  }
}

template <class D, int N>
__global__ void __launch_bounds__(threads)
    backward_kernel(Rows<D> dx, sum_t<D>* dlogits, Rows<D> dout, Rows<D> x, const sum_t<D>* logits) {
  using A = sum_t<D>;
  __shared__ A scratch[warp_size];
  const int64_t row = blockIdx.x;
  const A gate = gate_of(logits[row]);
  const D *dy = row_at(dout, row), *in = row_at(x, row);
  D* out = row_at(dx, row);
  A dot = 0;
  for (int64_t c = int64_t{threadIdx.x} * N; c < x.width; c += int64_t{threads} * N) {
    Vector<D, N> v = load<N>(dy + c);
    const Vector<D, N> of_x = load<N>(in + c);
#pragma unroll
    for (int e = 0; e < N; ++e) {
      dot += to<A>(v.at[e]) * to<A>(of_x.at[e]);
      v.at[e] = to<D>(to<A>(v.at[e]) * gate);
    }
    store(out + c, v);
  }
  dot = block_sum(dot, scratch);
  if (threadIdx.x == 0) dlogits[row] = gate * gate_of(-logits[row]) * dot;
}

/// Calls f with the number of elements that one access reads: as many as fill 16 bytes if all rows permit it, otherwise
/// one.
template <class D, class F>
void with_vector(std::initializer_list<Rows<D>> rows, const F& f) {
  if (std::all_of(rows.begin(), rows.end(), [](const Rows<D>& r) { return r.aligned(wide<D>); }))
    f(std::integral_constant<int, wide<D>>{});
  else
    f(std::integral_constant<int, 1>{});
}

void forward(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& logits) {
  require_shape("row_gate", "out", out, x.shape());
  with_dtype<float, bf16, double>("row_gate", x.dtype(), [&]<class T>() {
    using D = device_t<T>;
    const Rows<D> y = rows_of<T>("row_gate", out), in = rows_of<T>("row_gate", x);
    require_flat("row_gate", "logits", logits, in.count);
    with_vector<D>({y, in}, [&]<int N>(std::integral_constant<int, N>) {
      launch("row_gate", forward_kernel<D, N>, in.count, threads, stream, y, in, pointer<accumulator_t<T>>(logits));
    });
  });
}

void backward(Stream& stream, const Tensor& dx, const Tensor& dlogits, const Tensor& dout, const Tensor& x,
              const Tensor& logits) {
  require_shape("row_gate", "dx", dx, x.shape());
  require_shape("row_gate", "dout", dout, x.shape());
  with_dtype<float, bf16, double>("row_gate", x.dtype(), [&]<class T>() {
    using D = device_t<T>;
    using A = accumulator_t<T>;
    const Rows<D> out = rows_of<T>("row_gate", dx), dy = rows_of<T>("row_gate", dout), in = rows_of<T>("row_gate", x);
    require_flat("row_gate", "logits", logits, in.count);
    require_flat("row_gate", "dlogits", dlogits, in.count);
    with_vector<D>({out, dy, in}, [&]<int N>(std::integral_constant<int, N>) {
      launch("row_gate", backward_kernel<D, N>, in.count, threads, stream, out, pointer<A>(dlogits), dy, in,
             pointer<A>(logits));
    });
  });
}

}  // namespace
}  // namespace hexad::kernels::cuda

namespace hexad::kernels {

const RowGateKernels RowGateKernels::of_cuda{.forward = cuda::forward, .backward = cuda::backward};

}  // namespace hexad::kernels
