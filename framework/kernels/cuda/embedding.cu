// Lookup of the rows of a table by id, and the gradient of the table. backward() sorts the tokens stably by id. One
// block of backward_kernel then adds the rows of an id in the order of their tokens, with a few columns per thread.
#include <bit>

#include "framework/kernels/cuda/launch.cuh"
#include "framework/kernels/cuda/libraries/radix_sort.h"
#include "framework/kernels/cuda/matrix.cuh"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cuda {

using namespace base;
namespace {

constexpr int warps = 8, threads = warps * warp_size;
constexpr int batch = 4;          // accesses in flight per thread
constexpr int run_batch = 8;      // accesses in flight per thread for the rows of one id
constexpr int max_threads = 512;  // maximum number of threads that share the columns of an id

template <int N, class D>
__device__ Vector<D, N>* vectors(const Rows<D>& matrix, int64_t r) {
  return reinterpret_cast<Vector<D, N>*>(matrix.data + r * matrix.stride[0]);
}

/// Copies out[t] = table[ids[t]]. One warp copies one row.
template <class D, int N>
__global__ void __launch_bounds__(threads) forward_kernel(Rows<D> out, Rows<D> table, const int32_t* ids) {
  const int64_t t = int64_t{blockIdx.x} * warps + threadIdx.x / warp_size;
  if (t >= out.count) return;
  auto* const target = vectors<N>(out, t);
  const auto* const row = vectors<N>(table, ids[t]);
  const int64_t width = out.width / N;
  for (int64_t first = threadIdx.x % warp_size; first < width; first += batch * warp_size) {
    Vector<D, N> held[batch];
#pragma unroll
    for (int b = 0; b < batch; ++b)
      if (first + b * warp_size < width) held[b] = row[first + b * warp_size];
#pragma unroll
    for (int b = 0; b < batch; ++b)
      if (first + b * warp_size < width) target[first + b * warp_size] = held[b];
  }
}

/// Adds the rows of each id in one block. The index of this block is the first position of the id among the sorted ids.
/// All other blocks do nothing. Tokens without an id (-1) come last and are not added.
template <class A, class D, int N>
__global__ void __launch_bounds__(max_threads, 2)
    backward_kernel(Rows<A> dtable, Rows<D> dout, const int32_t* ids, const int32_t* tokens, int count) {
  // Elements are loaded as raw bits. Elements of type bf16 would use twice as many registers.
  using Packed = std::conditional_t<sizeof(D) * N == sizeof(uint2), uint2, Vector<D, N>>;
  const int begin = static_cast<int>(blockIdx.x), id = ids[begin];
  if (id < 0 || (begin > 0 && ids[begin - 1] == id)) return;
  auto* const target = vectors<N>(dtable, id);
  for (int64_t v = threadIdx.x; v < dout.width / N; v += blockDim.x) {
    Vector<A, N> sum = target[v];
    for (int first = begin; first < count && ids[first] == id; first += run_batch) {
      Packed held[run_batch];
      bool same[run_batch];
#pragma unroll
      for (int b = 0; b < run_batch; ++b) {
        same[b] = first + b < count && ids[first + b] == id;
        if (same[b]) held[b] = reinterpret_cast<const Packed*>(vectors<N>(dout, tokens[first + b]))[v];
      }
#pragma unroll
      for (int b = 0; b < run_batch; ++b) {
        if (!same[b]) break;
        const auto elements = std::bit_cast<Vector<D, N>>(held[b]);
#pragma unroll
        for (int n = 0; n < N; ++n) sum.at[n] += to<A>(elements.at[n]);
      }
    }
    target[v] = sum;
  }
}

void forward(Stream& stream, const Tensor& out, const Tensor& table, const Tensor& ids) {
  with_dtype<float, bf16, double>("embedding", table.dtype(), [&]<class T>() {
    using D = device_t<T>;
    const Rows<D> rows = matrix_of<T>("embedding", table), target = matrix_of<T>("embedding", out);
    require(target.count == ids.numel() && target.width == rows.width, "[embedding] out has shape ", out.shape(),
            " for ", ids.numel(), " ids of a table ", table.shape(),
            "; expected a row of the table's width for each id");
    require_flat("embedding", "ids", ids, ids.numel());
    const auto start = [&]<int N>(std::integral_constant<int, N>) {
      launch("embedding", forward_kernel<D, N>, blocks_of(target.count, warps), threads, stream, target, rows,
             pointer<int32_t>(ids));
    };
    if (target.aligned(wide<D>) && rows.aligned(wide<D>))
      start(std::integral_constant<int, wide<D>>{});
    else
      start(std::integral_constant<int, 1>{});
  });
}

void backward(Stream& stream, const Tensor& dtable, const Tensor& dout, const Tensor& ids) {
  with_dtype<float, bf16, double>("embedding", dout.dtype(), [&]<class T>() {
    using D = device_t<T>;
    using A = accumulator_t<T>;
    const Rows<D> rows = matrix_of<T>("embedding", dout);
    const Rows<A> target = matrix_of<A>("embedding", dtable);
    require(rows.count == ids.numel() && rows.width == target.width, "[embedding] dout has shape ", dout.shape(),
            " for ", ids.numel(), " ids of a table ", dtable.shape(),
            "; expected a row of the table's width for each id");
    require_flat("embedding", "ids", ids, ids.numel());
    require(rows.count < (1 << 30), "[embedding] there are ", rows.count, " tokens; expected fewer than 2^30");
    if (rows.count == 0 || rows.width == 0) return;
    const SortedIds sorted = sort_ids("embedding", stream, ids, target.count);
    const auto start = [&]<int N>(std::integral_constant<int, N>) {
      const int64_t lanes = (rows.width / N + warp_size - 1) / warp_size * warp_size;
      launch("embedding", backward_kernel<A, D, N>, rows.count, static_cast<int>(std::min<int64_t>(lanes, max_threads)),
             stream, target, rows, pointer<int32_t>(sorted.ids), pointer<int32_t>(sorted.places), rows.count);
    };
    if (rows.aligned(wide<A>) && target.aligned(wide<A>))
      start(std::integral_constant<int, wide<A>>{});
    else
      start(std::integral_constant<int, 1>{});
  });
}

}  // namespace
}  // namespace hexad::kernels::cuda

namespace hexad::kernels {

const EmbeddingKernels EmbeddingKernels::of_cuda{.forward = cuda::forward, .backward = cuda::backward};

}  // namespace hexad::kernels
