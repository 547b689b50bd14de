#include "framework/kernels/cuda/vectors.cuh"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cuda {

using namespace base;
namespace {

constexpr int at_once = 2;  // items per thread whose loads are in flight together

/// Heads of the queries or of the keys, one per row: [tokens * heads, size of a head]. `out` may be `x`.
template <class D>
struct Heads {
  Rows<D> out, x;
  int64_t per_token = 1;  // heads of a token
  int64_t rows = 0;       // tokens * heads; 0 if the call has no queries or no keys
};

template <class A>
struct Angles {
  const int32_t* positions;
  const A *cosine, *sine;
  A sign;
  int64_t half;  // P, the number of pairs of a head
};

/// Rotates the items of one block. A head has `per_row` items. Each of the first P / N items contains N elements and
/// their partners, which are P elements later. The remaining items contain N elements each, which follow all pairs and
/// are only copied.
template <int N, class D, class A>
__device__ __forceinline__ void rotate_block(const Heads<D>& heads, const Angles<A>& angles, int64_t block,
                                             int64_t per_row) {
  const int64_t half = angles.half, count = heads.rows * per_row;
  const auto item = [block](int u) { return (block * at_once + u) * item_threads + threadIdx.x; };
  Words<D, N> first[at_once], second[at_once];
  Words<A, N> cosine[at_once], sine[at_once];
#pragma unroll
  for (int u = 0; u < at_once; ++u) {
    const int64_t i = item(u);
    if (i >= count) break;
    const int64_t row = i / per_row, column = (i - row * per_row) * N;
    const D* x = row_at(heads.x, row) + column;
    if (column >= half) {
      first[u] = load_words<N>(x + half);
      continue;
    }
    const int64_t angle = angles.positions[row / heads.per_token] * half + column;
    first[u] = load_words<N>(x);
    second[u] = load_words<N>(x + half);
    cosine[u] = load_words<N>(angles.cosine + angle);
    sine[u] = load_words<N>(angles.sine + angle);
  }
#pragma unroll
  for (int u = 0; u < at_once; ++u) {
    const int64_t i = item(u);
    if (i >= count) break;
    const int64_t row = i / per_row, column = (i - row * per_row) * N;
    D* out = row_at(heads.out, row) + column;
    if (column >= half) {
      store(out + half, elements(first[u]));
      continue;
    }
    const Vector<D, N> a = elements(first[u]), b = elements(second[u]);
    const Vector<A, N> cos = elements(cosine[u]), sin = elements(sine[u]);
    Vector<D, N> left, right;
#pragma unroll
    for (int e = 0; e < N; ++e) {
      const A s = angles.sign * sin.at[e];
      left.at[e] = to<D>(to<A>(a.at[e]) * cos.at[e] - to<A>(b.at[e]) * s);
      right.at[e] = to<D>(to<A>(b.at[e]) * cos.at[e] + to<A>(a.at[e]) * s);
    }
    store(out, left);
    store(out + half, right);
  }
}

/// Rotates queries and keys. The first `blocks_of_q` blocks rotate queries, and the remaining blocks rotate keys.
template <class D, int N>
__global__ void __launch_bounds__(item_threads)
    rotate(const __grid_constant__ Heads<D> q, const __grid_constant__ Heads<D> k, Angles<sum_t<D>> angles,
           int64_t per_row, int64_t blocks_of_q) {
  if (blockIdx.x < blocks_of_q)
    rotate_block<N>(q, angles, blockIdx.x, per_row);
  else
    rotate_block<N>(k, angles, blockIdx.x - blocks_of_q, per_row);
}

/// Returns the rows of `x` and `out`; no rows if x is undefined.
template <class T>
Heads<device_t<T>> heads_of(const Tensor& out, const Tensor& x, int64_t tokens, int64_t size) {
  if (!x.defined()) return {};
  require(x.rank() == 3 && x.dim(0) == tokens && x.dim(2) == size, "[rotary] x has shape ", x.shape(), "; expected [",
          tokens, ", heads, ", size, "]");
  require_shape("rotary", "out", out, x.shape());
  return {rows_of<T>("rotary", out), rows_of<T>("rotary", x), x.dim(1), tokens * x.dim(1)};
}

void apply(Stream& stream, const QueriesAndKeys& out, const QueriesAndKeys& x, const Tensor& positions,
           const Tensor& cosine, const Tensor& sine, Direction direction) {
  const int64_t tokens = positions.numel(), context = cosine.dim(0), half = cosine.dim(1);
  const Tensor& any = x.q.defined() ? x.q : x.k;
  const int64_t size = any.dim(-1), items = size - half;  // elements that are the first of a pair or have no partner
  require(2 * half <= size, "[rotary] heads have ", size, " elements; expected at least ", 2 * half,
          ", two for each of the ", half, " columns of cosine");
  require_flat("rotary", "positions", positions, tokens);
  require_flat("rotary", "cosine", cosine, context * half);
  require_shape("rotary", "sine", sine, {context, half});
  require_flat("rotary", "sine", sine, context * half);
  with_dtype<float, bf16, double>("rotary", any.dtype(), [&]<class T>() {
    using D = device_t<T>;
    using A = accumulator_t<T>;
    const Heads<D> q = heads_of<T>(out.q, x.q, tokens, size), k = heads_of<T>(out.k, x.k, tokens, size);
    const Angles<A> angles{.positions = pointer<int32_t>(positions),
                           .cosine = pointer<A>(cosine),
                           .sine = pointer<A>(sine),
                           .sign = direction == Direction::forward ? A(1) : A(-1),
                           .half = half};
    const auto run = [&]<int N>(std::integral_constant<int, N>) {
      const auto blocks = [&](const Heads<D>& heads) {
        return blocks_of(heads.rows * (items / N), int64_t{item_threads} * at_once);
      };
      launch("rotary", rotate<D, N>, blocks(q) + blocks(k), item_threads, stream, q, k, angles, items / N, blocks(q));
    };
    const auto aligned = [](const Heads<D>& h) {
      return h.rows == 0 || (h.x.aligned(wide<D>) && h.out.aligned(wide<D>));
    };
    const auto table_aligned = [](const A* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; };
    if (half % wide<D> == 0 && aligned(q) && aligned(k) && table_aligned(angles.cosine) && table_aligned(angles.sine)) {
      run(std::integral_constant<int, wide<D>>{});
    } else {
      run(std::integral_constant<int, 1>{});
    }
  });
}

}  // namespace
}  // namespace hexad::kernels::cuda

namespace hexad::kernels {

const RotaryKernels RotaryKernels::of_cuda{.apply = cuda::apply};

}  // namespace hexad::kernels
