// RMS norms of rows whose columns are divided among ranks. One block computes one row of this rank's columns.
#include "framework/kernels/cuda/vectors.cuh"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cuda {

using namespace base;
namespace {

constexpr int threads = 256;

/// Calls f(c) for each vector of N columns of this thread. c is the index of the vector's first column.
template <int N, class F>
__device__ __forceinline__ void for_columns(int64_t width, const F& f) {
  for (int64_t c = int64_t{threadIdx.x} * N; c < width; c += int64_t{threads} * N) f(c);
}

template <class D, class A = sum_t<D>>
struct Forward {
  Rows<D> out, x;
  A* inverse_rms;
  const A* squares;
  const D* gain;
  A width, eps;
};

template <class D, int N>
__global__ void __launch_bounds__(threads) forward_kernel(Forward<D> o) {
  using A = sum_t<D>;
  const int64_t row = blockIdx.x;
  const A r = 1 / sqrt(o.squares[row] / o.width + o.eps);
  if (threadIdx.x == 0) o.inverse_rms[row] = r;
  const D* x = row_at(o.x, row);
  D* out = row_at(o.out, row);
  for_columns<N>(o.x.width, [&](int64_t c) {
    const Vector<D, N> in = load<N>(x + c), gain = load<N>(o.gain + c);
    Vector<D, N> y;
#pragma unroll
    for (int e = 0; e < N; ++e) y.at[e] = to<D>(to<A>(in.at[e]) * r * to<A>(gain.at[e]));
    store(out + c, y);
  });
}

template <class D, int N>
__global__ void __launch_bounds__(threads) dots_kernel(sum_t<D>* out, Rows<D> dy, Rows<D> x, const D* gains) {
  using A = sum_t<D>;
  __shared__ A scratch[warp_size];
  const int64_t row = blockIdx.x;
  const D *dout = row_at(dy, row), *in_row = row_at(x, row);
  A sum = 0;
  for_columns<N>(x.width, [&](int64_t c) {
    const Vector<D, N> back = load<N>(dout + c), in = load<N>(in_row + c), gain = load<N>(gains + c);
#pragma unroll
    for (int e = 0; e < N; ++e) sum += to<A>(gain.at[e]) * to<A>(back.at[e]) * to<A>(in.at[e]);
  });
  sum = block_sum(sum, scratch);
  if (threadIdx.x == 0) out[row] = sum;
}

template <class D, class A = sum_t<D>>
struct InputGradient {
  Rows<D> dx, dy, x;
  const D* gain;
  const A *inverse_rms, *dots;
  A width;
};

template <class D, int N>
__global__ void __launch_bounds__(threads) input_gradient_kernel(InputGradient<D> o) {
  using A = sum_t<D>;
  const int64_t row = blockIdx.x;
  const A r = o.inverse_rms[row], back = o.dots[row] * r * r / o.width;
  const D *dy = row_at(o.dy, row), *x = row_at(o.x, row);
  D* dx = row_at(o.dx, row);
  for_columns<N>(o.x.width, [&](int64_t c) {
    const Vector<D, N> out = load<N>(dy + c), in = load<N>(x + c), gain = load<N>(o.gain + c);
    Vector<D, N> y;
#pragma unroll
    for (int e = 0; e < N; ++e) y.at[e] = to<D>(r * (to<A>(gain.at[e]) * to<A>(out.at[e]) - to<A>(in.at[e]) * back));
    store(dx + c, y);
  });
}

/// Calls f with the number of elements that one access reads: as many as fill 16 bytes if all operands permit it,
/// otherwise one.
template <class D, class F>
void with_vector(const D* gain, std::initializer_list<Rows<D>> rows, const F& f) {
  const bool aligned = reinterpret_cast<uintptr_t>(gain) % 16 == 0 &&
                       std::all_of(rows.begin(), rows.end(), [](const Rows<D>& r) { return r.aligned(wide<D>); });
  if (aligned)
    f(std::integral_constant<int, wide<D>>{});
  else
    f(std::integral_constant<int, 1>{});
}

void forward(Stream& stream, const Tensor& out, const Tensor& inverse_rms, const Tensor& x, const Tensor& squares,
             const Tensor& gain, int64_t width, double eps) {
  require_shape("split_norm", "out", out, x.shape());
  with_dtype<float, bf16, double>("split_norm", x.dtype(), [&]<class T>() {
    using D = device_t<T>;
    using A = accumulator_t<T>;
    const Forward<D> o{.out = rows_of<T>("split_norm", out),
                       .x = rows_of<T>("split_norm", x),
                       .inverse_rms = pointer<A>(inverse_rms),
                       .squares = pointer<A>(squares),
                       .gain = pointer<T>(gain),
                       .width = static_cast<A>(width),
                       .eps = static_cast<A>(eps)};
    require_flat("split_norm", "inverse_rms", inverse_rms, o.x.count);
    require_flat("split_norm", "squares", squares, o.x.count);
    require_flat("split_norm", "gain", gain, o.x.width);
    with_vector<D>(o.gain, {o.out, o.x}, [&]<int N>(std::integral_constant<int, N>) {
      launch("split_norm", forward_kernel<D, N>, o.x.count, threads, stream, o);
    });
  });
}

void dots(Stream& stream, const Tensor& out, const Tensor& dy, const Tensor& x, const Tensor& gain) {
  require_shape("split_norm", "dy", dy, x.shape());
  with_dtype<float, bf16, double>("split_norm", x.dtype(), [&]<class T>() {
    using D = device_t<T>;
    const Rows<D> back = rows_of<T>("split_norm", dy), in = rows_of<T>("split_norm", x);
    require_flat("split_norm", "out", out, in.count);
    require_flat("split_norm", "gain", gain, in.width);
    with_vector<D>(pointer<T>(gain), {back, in}, [&]<int N>(std::integral_constant<int, N>) {
      launch("split_norm", dots_kernel<D, N>, in.count, threads, stream, pointer<accumulator_t<T>>(out), back, in,
             pointer<T>(gain));
    });
  });
}

void input_gradient(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& gain,
                    const Tensor& inverse_rms, const Tensor& dots, int64_t width) {
  require_shape("split_norm", "dx", dx, x.shape());
  require_shape("split_norm", "dy", dy, x.shape());
  with_dtype<float, bf16, double>("split_norm", x.dtype(), [&]<class T>() {
    using D = device_t<T>;
    using A = accumulator_t<T>;
    const InputGradient<D> o{.dx = rows_of<T>("split_norm", dx),
                             .dy = rows_of<T>("split_norm", dy),
                             .x = rows_of<T>("split_norm", x),
                             .gain = pointer<T>(gain),
                             .inverse_rms = pointer<A>(inverse_rms),
                             .dots = pointer<A>(dots),
                             .width = static_cast<A>(width)};
    require_flat("split_norm", "inverse_rms", inverse_rms, o.x.count);
    require_flat("split_norm", "dots", dots, o.x.count);
    require_flat("split_norm", "gain", gain, o.x.width);
    with_vector<D>(o.gain, {o.dx, o.dy, o.x}, [&]<int N>(std::integral_constant<int, N>) {
      launch("split_norm", input_gradient_kernel<D, N>, o.x.count, threads, stream, o);
    });
  });
}

}  // namespace
}  // namespace hexad::kernels::cuda

namespace hexad::kernels {

const SplitNormKernels SplitNormKernels::of_cuda{
    .forward = cuda::forward, .dots = cuda::dots, .input_gradient = cuda::input_gradient};

}  // namespace hexad::kernels
