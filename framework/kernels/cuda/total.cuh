// Sums over all elements of a tensor, in double. The order of addition depends only on the dtype and the number of
// elements.
#pragma once

#include "framework/kernels/cuda/vectors.cuh"

namespace hexad::kernels::cuda {

using base::Dtype;
using base::with_dtype;

inline constexpr int total_threads = 256, total_at_once = 4, final_threads = 1024;

/// Loads the vector at p. Elements from index `left` on are not read; they are zeros in the result. `aligned` does not
/// affect the result.
template <int N, class D>
__device__ __forceinline__ Vector<D, N> load_some(const D* p, int64_t left, bool aligned) {
  if (aligned && left >= N) return load<N>(p);
  Vector<D, N> v{};
#pragma unroll
  for (int e = 0; e < N; ++e)
    if (e < left) v.at[e] = p[e];
  return v;
}

/// Sets partials[b] to the sum of term(x) over elements [b * per_block, (b + 1) * per_block).
template <class Term, class D>
__global__ void __launch_bounds__(total_threads)
    partial_totals(double* partials, const D* x, int64_t count, int64_t per_block, bool aligned) {
  constexpr int N = wide<D>;
  __shared__ double scratch[warp_size];
  const int64_t begin = int64_t{blockIdx.x} * per_block, end = min(begin + per_block, count);
  double sum = 0;
  for (int64_t at = begin; at < end; at += int64_t{total_threads} * total_at_once * N) {
    Vector<D, N> v[total_at_once];
#pragma unroll
    for (int u = 0; u < total_at_once; ++u) {
      const int64_t i = at + (int64_t{u} * total_threads + threadIdx.x) * N;
      v[u] = load_some<N>(x + min(i, end), end - i, aligned);
    }
#pragma unroll
    for (int u = 0; u < total_at_once; ++u) {
      double part = 0;
#pragma unroll
      for (int e = 0; e < N; ++e) part += Term()(to<double>(v[u].at[e]));
      sum += part;
    }
  }
  sum = block_sum(sum, scratch);
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

/// Writes the sum of the partial sums to out[0], or adds the sum to out[0] if `replace` is false. Runs as a single
/// block.
template <class Out>
__global__ void __launch_bounds__(final_threads)
    add_totals(Out* out, const double* partials, int64_t count, bool replace) {
  __shared__ double scratch[warp_size];
  double sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += final_threads) sum += partials[i];
  sum = block_sum(sum, scratch);
  if (threadIdx.x == 0) *out = static_cast<Out>(replace ? sum : static_cast<double>(*out) + sum);
}

/// Writes the sum of Term()(x) over all elements to out[0], or adds the sum to out[0], depending on `write`.
template <class Term>
void total(std::string_view op, Stream& stream, const Tensor& out, const Tensor& x, Write write) {
  constexpr int64_t smallest = 16384, max_blocks = 2048;  // minimum of per_block; maximum number of blocks
  const int64_t count = x.numel();
  require_flat(op, "out", out, 1);
  require_flat(op, "x", x, count);
  const int64_t per_block =
      smallest * std::max<int64_t>(1, (count + smallest * max_blocks - 1) / (smallest * max_blocks));
  const int64_t blocks = blocks_of(count, per_block);
  const Tensor partials = Tensor::empty({std::max<int64_t>(1, blocks)}, Dtype::f64, out.device());
  with_dtype<float, bf16, double>(op, x.dtype(), [&]<class T>() {
    const device_t<T>* in = pointer<T>(x);
    launch(op, partial_totals<Term, device_t<T>>, blocks, total_threads, stream, pointer<double>(partials), in, count,
           per_block, reinterpret_cast<uintptr_t>(in) % 16 == 0);
  });
  with_dtype<float, double>(op, out.dtype(), [&]<class Out>() {
    launch(op, add_totals<Out>, 1, final_threads, stream, pointer<Out>(out), pointer<double>(partials), blocks,
           write == Write::replace);
  });
}

}  // namespace hexad::kernels::cuda
