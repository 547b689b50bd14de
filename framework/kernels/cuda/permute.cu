// Copies rows to experts and back, with one warp per row (rows of a single element: with one thread per row). Each lane
// has several accesses in flight. An access copies 16 bytes if the addresses and strides of the rows are multiples of
// 16 bytes.
#include <bit>

#include "framework/kernels/cuda/launch.cuh"
#include "framework/kernels/cuda/matrix.cuh"
#include "framework/kernels/cuda/windows.cuh"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cuda {

using namespace base;
namespace {

constexpr int warps = 8, threads = warps * warp_size;
constexpr int batch = 4;        // accesses in flight per lane
constexpr int max_addends = 4;  // maximum number of addends of a combine

__device__ int lane_id() { return static_cast<int>(threadIdx.x) % warp_size; }
__device__ int64_t warp_id() { return int64_t{blockIdx.x} * warps + threadIdx.x / warp_size; }

/// N elements that one access loads or stores. 16 bytes are loaded as raw bits, because bf16 elements would use twice
/// as many registers.
template <class D, int N>
using Packed = std::conditional_t<sizeof(D) * N == sizeof(uint4), uint4, Vector<D, N>>;

template <class D, int N>
__device__ __forceinline__ Vector<D, N> unpack(const Packed<D, N>& packed) {
  return std::bit_cast<Vector<D, N>>(packed);
}
template <class D, int N>
__device__ __forceinline__ Packed<D, N> pack(const Vector<D, N>& elements) {
  return std::bit_cast<Packed<D, N>>(elements);
}

/// Returns the address of row r of a matrix, as a pointer to vectors of N elements.
template <int N, class D>
__device__ __forceinline__ Packed<D, N>* vectors(const Rows<D>& matrix, int64_t r) {
  return reinterpret_cast<Packed<D, N>*>(matrix.data + r * matrix.stride[0]);
}

/// Calls f(first) for first = lane, lane + 32 * B, ... while first < count. Each call is for B vectors of this lane:
/// vectors first, first + 32, first + 64, ...
template <int B, class F>
__device__ __forceinline__ void for_batches(int64_t count, const F& f) {
  for (int64_t first = lane_id(); first < count; first += B * warp_size) f(first);
}

/// Loads held[b] = row[first + 32 b] for all b < B with first + 32 b < count. `count` is the length of the row.
template <int B, class V>
__device__ __forceinline__ void load_batch(V (&held)[B], const V* row, int64_t first, int64_t count) {
#pragma unroll
  for (int b = 0; b < B; ++b)
    if (first + b * warp_size < count) held[b] = row[first + b * warp_size];
}
template <int B, class V>
__device__ __forceinline__ void store_batch(V* row, const V (&held)[B], int64_t first, int64_t count) {
#pragma unroll
  for (int b = 0; b < B; ++b)
    if (first + b * warp_size < count) row[first + b * warp_size] = held[b];
}

/// Copies out[to[r]] = x[from[r]]. A null `to` or `from` means the list 0, 1, 2, ... Row r is not copied if to[r] or
/// from[r] is -1.
template <class D, int N>
__global__ void __launch_bounds__(threads)
    copy_kernel(Rows<D> out, Rows<D> x, const int64_t* to, const int64_t* from, int64_t count) {
  const int64_t r = warp_id();
  if (r >= count) return;
  const int64_t source = from ? from[r] : r, place = to ? to[r] : r;
  if (source < 0 || place < 0) return;
  auto* const target = vectors<N>(out, place);
  const auto* const row = vectors<N>(x, source);
  const int64_t width = x.width / N;
  for_batches<batch>(width, [&](int64_t first) {
    Packed<D, N> held[batch];
    load_batch(held, row, first, width);
    store_batch(target, held, first, width);
  });
}

/// Like copy_kernel, for rows of a single element, with one thread per row.
template <class D>
__global__ void __launch_bounds__(threads)
    copy_elements(Rows<D> out, Rows<D> x, const int64_t* to, const int64_t* from, int64_t count) {
  const int64_t r = int64_t{blockIdx.x} * threads + threadIdx.x;
  if (r >= count) return;
  const int64_t source = from ? from[r] : r, place = to ? to[r] : r;
  if (source >= 0 && place >= 0) *vectors<1>(out, place) = *vectors<1>(x, source);
}

/// Copies out[rows[t, k]] = x[t] for all k with rows[t, k] >= 0. Each token is read only once.
template <class D, int N>
__global__ void __launch_bounds__(threads)
    spread_kernel(Rows<D> out, Rows<D> x, const int64_t* __restrict__ rows, int top_k) {
  const int64_t t = warp_id();
  if (t >= x.count) return;
  const auto* const row = vectors<N>(x, t);
  const int64_t width = x.width / N;
  for_batches<batch>(width, [&](int64_t first) {
    Packed<D, N> held[batch];
    load_batch(held, row, first, width);
    for (int k = 0; k < top_k; ++k) {
      const int64_t r = rows[t * top_k + k];
      if (r >= 0) store_batch(vectors<N>(out, r), held, first, width);
    }
  });
}

/// Computes out[r] = scale[r] x[index[r]].
template <class D, int N>
__global__ void __launch_bounds__(threads)
    scale_kernel(Rows<D> out, Rows<D> x, const int64_t* index, const sum_t<D>* scale, int64_t count) {
  const int64_t r = warp_id();
  if (r >= count) return;
  auto* const target = vectors<N>(out, r);
  const auto* const row = vectors<N>(x, index[r]);
  const sum_t<D> factor = scale[r];
  const int64_t width = x.width / N;
  for_batches<batch>(width, [&](int64_t first) {
    Packed<D, N> held[batch];
    load_batch(held, row, first, width);
#pragma unroll
    for (int b = 0; b < batch; ++b) {
      auto elements = unpack<D, N>(held[b]);
#pragma unroll
      for (int n = 0; n < N; ++n) elements.at[n] = to<D>(factor * to<sum_t<D>>(elements.at[n]));
      held[b] = pack<D, N>(elements);
    }
    store_batch(target, held, first, width);
  });
}

/// The addends of a combine, in the order of addition.
template <class D>
struct Addends {
  int count = 0;
  Rows<D> rows[max_addends];
};

/// Computes out[t] = sum over k of weights[t, k] y[rows[t, k]] + the addends. Omits slots with rows[t, k] < 0. If
/// `weights` is null, all weights are 1.
template <class D, int N>
__global__ void __launch_bounds__(threads)
    combine_kernel(Rows<D> out, Rows<D> y, const int64_t* __restrict__ rows, const sum_t<D>* __restrict__ weights,
                   const __grid_constant__ Addends<D> addends, int64_t tokens, int top_k) {
  using A = sum_t<D>;
  constexpr int pair = 2;
  const int64_t t = warp_id();
  if (t >= tokens) return;
  const int64_t* const row = rows + t * top_k;
  const int64_t width = y.width / N;
  for_batches<pair>(width, [&](int64_t first) {
    A sum[pair][N]{};
    const auto add = [&](const Packed<D, N>(&held)[pair], A weight) {
#pragma unroll
      for (int b = 0; b < pair; ++b) {
        const auto elements = unpack<D, N>(held[b]);
#pragma unroll
        for (int n = 0; n < N; ++n) sum[b][n] += weight * to<A>(elements.at[n]);
      }
    };
    for (int k = 0; k < top_k; k += batch) {
      Packed<D, N> held[batch][pair];
      bool kept[batch];
#pragma unroll
      for (int j = 0; j < batch; ++j) {
        const int64_t r = k + j < top_k ? row[k + j] : -1;
        kept[j] = r >= 0;  // a dropped slot has no row
        if (kept[j]) load_batch(held[j], vectors<N>(y, r), first, width);
      }
#pragma unroll
      for (int j = 0; j < batch; ++j)
        if (kept[j]) add(held[j], weights ? weights[t * top_k + k + j] : A(1));
    }
    for (int i = 0; i < addends.count; ++i) {
      Packed<D, N> held[pair];
      load_batch(held, vectors<N>(addends.rows[i], t), first, width);
      add(held, A(1));
    }
    Packed<D, N> result[pair];
#pragma unroll
    for (int b = 0; b < pair; ++b) {
      Vector<D, N> elements;
#pragma unroll
      for (int n = 0; n < N; ++n) elements.at[n] = to<D>(sum[b][n]);
      result[b] = pack<D, N>(elements);
    }
    store_batch(vectors<N>(out, t), result, first, width);
  });
}

/// Computes dy[rows[t, k]] = weights[t, k] dout[t] and dweights[t, k] = <dout[t], y[rows[t, k]]>. If rows[t, k] < 0,
/// dweights[t, k] is 0.
template <class D, int N>
__global__ void __launch_bounds__(threads)
    combine_backward_kernel(Rows<D> dy, sum_t<D>* dweights, Rows<D> dout, Rows<D> y, const int64_t* __restrict__ rows,
                            const sum_t<D>* __restrict__ weights, int64_t tokens, int top_k) {
  using A = sum_t<D>;
  using V = Packed<D, N>;
  const int64_t t = warp_id();
  if (t >= tokens) return;
  const auto* const row = vectors<N>(dout, t);
  const int64_t width = y.width / N;
  for (int k = 0; k < top_k; k += batch) {
    V *from[batch], *target[batch];
    A weight[batch], dot[batch];
#pragma unroll
    for (int j = 0; j < batch; ++j) {
      const int64_t slot = t * top_k + k + j, r = k + j < top_k ? rows[slot] : -1;
      from[j] = r >= 0 ? vectors<N>(y, r) : nullptr;
      target[j] = r >= 0 ? vectors<N>(dy, r) : nullptr;
      weight[j] = r >= 0 ? weights[slot] : A(0);
      dot[j] = 0;
    }
    for (int64_t v = lane_id(); v < width; v += warp_size) {
      const auto d = unpack<D, N>(row[v]);
      V held[batch];
#pragma unroll
      for (int j = 0; j < batch; ++j)
        if (from[j]) held[j] = from[j][v];
#pragma unroll
      for (int j = 0; j < batch; ++j) {
        if (!from[j]) continue;
        const auto elements = unpack<D, N>(held[j]);
        Vector<D, N> product;
#pragma unroll
        for (int n = 0; n < N; ++n) {
          dot[j] += to<A>(d.at[n]) * to<A>(elements.at[n]);
          product.at[n] = to<D>(weight[j] * to<A>(d.at[n]));
        }
        target[j][v] = pack<D, N>(product);
      }
    }
#pragma unroll
    for (int j = 0; j < batch; ++j) {
      const A sum = warp_sum(dot[j]);
      if (lane_id() == 0 && k + j < top_k) dweights[t * top_k + k + j] = sum;
    }
  }
}

/// Sets named[r] = 1 for every row r that a slot refers to.
__global__ void __launch_bounds__(threads) name_kernel(uint8_t* named, const int64_t* rows, int64_t slots) {
  const int64_t slot = int64_t{blockIdx.x} * threads + threadIdx.x;
  if (slot < slots && rows[slot] >= 0) named[rows[slot]] = 1;
}

/// Zeroes the rows to which no slot refers: rows r with tokens[r] < 0 or, if `tokens` is null, with named[r] = 0. Each
/// warp checks 32 rows.
template <class D, int N>
__global__ void __launch_bounds__(threads) zero_kernel(Rows<D> dy, const int64_t* tokens, const uint8_t* named) {
  const int64_t first = warp_id() * warp_size, mine = first + lane_id();
  unsigned unnamed = __ballot_sync(0xffffffffu, mine < dy.count && (tokens ? tokens[mine] < 0 : named[mine] == 0));
  const int64_t width = dy.width / N;
  Vector<D, N> zero;
  for (int n = 0; n < N; ++n) zero.at[n] = to<D>(0.0f);
  for (; unnamed; unnamed &= unnamed - 1) {
    auto* const row = vectors<N>(dy, first + __ffs(static_cast<int>(unnamed)) - 1);
    for (int64_t v = lane_id(); v < width; v += warp_size) row[v] = pack<D, N>(zero);
  }
}

template <class D, int N>
__global__ void __launch_bounds__(threads) dot_kernel(sum_t<D>* out, Rows<D> a, Rows<D> b) {
  using A = sum_t<D>;
  const int64_t r = warp_id();
  if (r >= a.count) return;
  const auto *const left = vectors<N>(a, r), *const right = vectors<N>(b, r);
  const int64_t width = a.width / N;
  A sum = 0;
  for_batches<batch>(width, [&](int64_t first) {
    Packed<D, N> x[batch], y[batch];
    load_batch(x, left, first, width);
    load_batch(y, right, first, width);
#pragma unroll
    for (int i = 0; i < batch; ++i) {
      if (first + i * warp_size >= width) break;
      const auto p = unpack<D, N>(x[i]), q = unpack<D, N>(y[i]);
#pragma unroll
      for (int n = 0; n < N; ++n) sum += to<A>(p.at[n]) * to<A>(q.at[n]);
    }
  });
  sum = warp_sum(sum);
  if (lane_id() == 0) out[r] = sum;
}

/// Calls f with the number of elements per access: as many as fill 16 bytes if `aligned`, otherwise one.
template <class D, class F>
void with_vector(bool aligned, const F& f) {
  if (aligned)
    f(std::integral_constant<int, wide<D>>{});
  else
    f(std::integral_constant<int, 1>{});
}

/// Copies out[to[r]] = x[from[r]] for `count` rows. An undefined `to` or `from` means the list 0, 1, 2, ...
template <class T>
void copy_rows(std::string_view op, Stream& stream, const Tensor& out, const Tensor& x, const Tensor& to,
               const Tensor& from, int64_t count) {
  using D = device_t<T>;
  const auto target = matrix_of<T>(op, out), source = matrix_of<T>(op, x);
  if (source.width == 1)
    return launch(op, copy_elements<D>, blocks_of(count, threads), threads, stream, target, source,
                  pointer<int64_t>(to), pointer<int64_t>(from), count);
  with_vector<D>(target.aligned(wide<D>) && source.aligned(wide<D>), [&]<int N>(std::integral_constant<int, N>) {
    launch(op, copy_kernel<D, N>, blocks_of(count, warps), threads, stream, target, source, pointer<int64_t>(to),
           pointer<int64_t>(from), count);
  });
}

void gather(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& tokens, const Tensor& rows) {
  require_flat("gather", "tokens", tokens, tokens.numel());
  require_shape("gather", "out", out, {tokens.numel(), x.dim(-1)});
  with_dtype<float, bf16, double>("gather", x.dtype(), [&]<class T>() {
    if (!rows.defined()) return copy_rows<T>("gather", stream, out, x, {}, tokens, tokens.numel());
    using D = device_t<T>;
    const auto target = matrix_of<T>("gather", out), source = matrix_of<T>("gather", x);
    require(rows.rank() == 2 && rows.dim(0) == source.count && rows.contiguous(), "[gather] rows has shape ",
            rows.shape(), " and strides ", rows.strides(), "; expected ", source.count, " contiguous rows");
    with_vector<D>(target.aligned(wide<D>) && source.aligned(wide<D>), [&]<int N>(std::integral_constant<int, N>) {
      launch("gather", spread_kernel<D, N>, blocks_of(source.count, warps), threads, stream, target, source,
             pointer<int64_t>(rows), rows.dim(1));
    });
  });
}

void combine(Stream& stream, const Tensor& out, const Tensor& y, const Tensor& rows, const Tensor& weights,
             std::span<const Tensor> addends) {
  require_flat("combine", "rows", rows, rows.numel());
  require_shape("combine", "out", out, {rows.dim(0), y.dim(-1)});
  if (weights.defined()) require_flat("combine", "weights", weights, rows.numel());
  require(addends.size() <= max_addends, "[combine] there are ", addends.size(), " addends; expected at most ",
          max_addends);
  with_dtype<float, bf16, double>("combine", y.dtype(), [&]<class T>() {
    using D = device_t<T>;
    const auto target = matrix_of<T>("combine", out), source = matrix_of<T>("combine", y);
    bool aligned = target.aligned(wide<D>) && source.aligned(wide<D>);
    Addends<D> joined;
    for (const Tensor& addend : addends) {
      require_shape("combine", "an addend", addend, out.shape());
      auto& added = joined.rows[joined.count++] = matrix_of<T>("combine", addend);
      aligned = aligned && added.aligned(wide<D>);
    }
    with_vector<D>(aligned, [&]<int N>(std::integral_constant<int, N>) {
      launch("combine", combine_kernel<D, N>, blocks_of(target.count, warps), threads, stream, target, source,
             pointer<int64_t>(rows), pointer<accumulator_t<T>>(weights), joined, target.count, rows.dim(1));
    });
  });
}

/// Returns one byte for each of `count` rows: 1 if a slot refers to the row, otherwise 0.
Tensor named_rows(Stream& stream, const Tensor& rows, int64_t count) {
  const Tensor named = Tensor::empty({count}, Dtype::u8, rows.device());
  if (count > 0) {
    const auto queue = cuda_stream(stream).handle();
    check(cudaMemsetAsync(pointer<uint8_t>(named), 0, named.numel(), queue.get()), "combine");
  }
  launch("combine", name_kernel, blocks_of(rows.numel(), threads), threads, stream, pointer<uint8_t>(named),
         pointer<int64_t>(rows), rows.numel());
  return named;
}

void combine_backward(Stream& stream, const Tensor& dy, const Tensor& dweights, const Tensor& dout, const Tensor& y,
                      const Tensor& rows, const Tensor& tokens, const Tensor& weights) {
  require_flat("combine", "rows", rows, rows.numel());
  require_shape("combine", "dout", dout, {rows.dim(0), y.dim(-1)});
  require_shape("combine", "dy", dy, y.shape());
  require_flat("combine", "weights", weights, rows.numel());
  require_flat("combine", "dweights", dweights, rows.numel());
  if (tokens.defined()) require_flat("combine", "tokens", tokens, y.dim(0));
  const Tensor named = tokens.defined() ? Tensor{} : named_rows(stream, rows, y.dim(0));
  with_dtype<float, bf16, double>("combine", y.dtype(), [&]<class T>() {
    using D = device_t<T>;
    const auto to_y = matrix_of<T>("combine", dy), from_y = matrix_of<T>("combine", y),
               out = matrix_of<T>("combine", dout);
    const bool aligned = to_y.aligned(wide<D>) && from_y.aligned(wide<D>) && out.aligned(wide<D>);
    with_vector<D>(aligned, [&]<int N>(std::integral_constant<int, N>) {
      launch("combine", zero_kernel<D, N>, blocks_of(to_y.count, threads), threads, stream, to_y,
             pointer<int64_t>(tokens), pointer<uint8_t>(named));
      launch("combine", combine_backward_kernel<D, N>, blocks_of(out.count, warps), threads, stream, to_y,
             pointer<accumulator_t<T>>(dweights), out, from_y, pointer<int64_t>(rows),
             pointer<accumulator_t<T>>(weights), out.count, rows.dim(1));
    });
  });
}

void scatter(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& index) {
  require_flat("scatter", "index", index, index.numel());
  require_shape("scatter", "x", x, {index.numel(), out.dim(-1)});
  with_dtype<float, bf16, double>("scatter", x.dtype(),
                                  [&]<class T>() { copy_rows<T>("scatter", stream, out, x, index, {}, x.dim(0)); });
}

void gather_weighted(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& index, const Tensor& scale) {
  require_flat("gather_weighted", "index", index, index.numel());
  require_shape("gather_weighted", "out", out, {index.numel(), x.dim(-1)});
  with_dtype<float, bf16, double>("gather_weighted", x.dtype(), [&]<class T>() {
    if (!scale.defined()) return copy_rows<T>("gather_weighted", stream, out, x, {}, index, index.numel());
    using D = device_t<T>;
    require_flat("gather_weighted", "scale", scale, index.numel());
    const auto target = matrix_of<T>("gather_weighted", out), source = matrix_of<T>("gather_weighted", x);
    with_vector<D>(target.aligned(wide<D>) && source.aligned(wide<D>), [&]<int N>(std::integral_constant<int, N>) {
      launch("gather_weighted", scale_kernel<D, N>, blocks_of(target.count, warps), threads, stream, target, source,
             pointer<int64_t>(index), pointer<accumulator_t<T>>(scale), target.count);
    });
  });
}

void row_dots(Stream& stream, const Tensor& out, const Tensor& a, const Tensor& b) {
  require_shape("row_dots", "b", b, a.shape());
  with_dtype<float, bf16, double>("row_dots", a.dtype(), [&]<class T>() {
    using D = device_t<T>;
    const auto left = matrix_of<T>("row_dots", a), right = matrix_of<T>("row_dots", b);
    require_flat("row_dots", "out", out, left.count);
    with_vector<D>(left.aligned(wide<D>) && right.aligned(wide<D>), [&]<int N>(std::integral_constant<int, N>) {
      launch("row_dots", dot_kernel<D, N>, blocks_of(left.count, warps), threads, stream,
             pointer<accumulator_t<T>>(out), left, right);
    });
  });
}

void put(Stream& stream, const Tensor& window, const Tensor& distances, const Tensor& runs, const Tensor& x,
         const Tensor& index) {
  copy_by_window<Towards::windows>("put", stream, window, distances, runs, x, index);
}

void pull(Stream& stream, const Tensor& out, const Tensor& window, const Tensor& distances, const Tensor& runs) {
  copy_by_window<Towards::rows>("pull", stream, window, distances, runs, out, {});
}

}  // namespace
}  // namespace hexad::kernels::cuda

namespace hexad::kernels {

const PermuteKernels PermuteKernels::of_cuda{.gather = cuda::gather,
                                             .combine = cuda::combine,
                                             .combine_backward = cuda::combine_backward,
                                             .scatter = cuda::scatter,
                                             .gather_weighted = cuda::gather_weighted,
                                             .row_dots = cuda::row_dots,
                                             .put = cuda::put,
                                             .pull = cuda::pull};

}  // namespace hexad::kernels
