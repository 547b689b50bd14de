#include "framework/kernels/cuda/vectors.cuh"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cuda {

using namespace base;
namespace {

constexpr int at_once = 2;  // items whose loads are in flight together

template <class D, class A = sum_t<D>>
struct Operands {
  Rows<D> out, x;  // [T H, C]
  const int32_t* positions;
  const A *cosine, *sine;
  int64_t heads;
  A sign;
};

/// Rotates an item: N elements of a head's first half and their partners in the second half. out may be x.
template <class D, int N>
__global__ void __launch_bounds__(item_threads) rotate(Operands<D> o, Items<N> items) {
  using A = sum_t<D>;
  const int64_t half = items.per_row * N;
  Words<D, N> first[at_once], second[at_once];
  Words<A, N> cosine[at_once], sine[at_once];
#pragma unroll
  for (int u = 0; u < at_once; ++u) {
    const int64_t i = item_of_thread<at_once>(u);
    if (i >= items.count) break;
    const int64_t row = items.row(i), column = (i - row * items.per_row) * N;
    const int64_t angles = o.positions[row / o.heads] * half + column;
    const D* x = row_at(o.x, row) + column;
    first[u] = load_words<N>(x);
    second[u] = load_words<N>(x + half);
    cosine[u] = load_words<N>(o.cosine + angles);
    sine[u] = load_words<N>(o.sine + angles);
  }
#pragma unroll
  for (int u = 0; u < at_once; ++u) {
    const int64_t i = item_of_thread<at_once>(u);
    if (i >= items.count) break;
    const int64_t row = items.row(i), column = (i - row * items.per_row) * N;
    const Vector<D, N> a = elements(first[u]), b = elements(second[u]);
    const Vector<A, N> cos = elements(cosine[u]), sin = elements(sine[u]);
    Vector<D, N> left, right;
#pragma unroll
    for (int e = 0; e < N; ++e) {
      const A s = o.sign * sin.at[e];
      left.at[e] = to<D>(to<A>(a.at[e]) * cos.at[e] - to<A>(b.at[e]) * s);
      right.at[e] = to<D>(to<A>(b.at[e]) * cos.at[e] + to<A>(a.at[e]) * s);
    }
    D* out = row_at(o.out, row) + column;
    store(out, left);
    store(out + half, right);
  }
}

void apply(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& positions, const Tensor& cosine,
           const Tensor& sine, Direction direction) {
  require(x.rank() == 3 && x.dim(2) % 2 == 0, "[rotary] x has shape ", x.shape(), "; expected [T, H, C], C even");
  const int64_t heads = x.dim(1), half = x.dim(2) / 2, context = cosine.dim(0);
  require_shape("rotary", "out", out, x.shape());
  require_flat("rotary", "cosine", cosine, context * half);
  require_flat("rotary", "sine", sine, context * half);
  require_flat("rotary", "positions", positions, x.dim(0));
  with_dtype<float, bf16, double>("rotary", x.dtype(), [&]<class T>() {
    using D = device_t<T>;
    using A = accumulator_t<T>;
    const Operands<D> o{.out = rows_of<T>("rotary", out),
                        .x = rows_of<T>("rotary", x),
                        .positions = pointer<int32_t>(positions),
                        .cosine = pointer<A>(cosine),
                        .sine = pointer<A>(sine),
                        .heads = heads,
                        .sign = direction == Direction::forward ? A(1) : A(-1)};
    const auto run = [&]<int N>(std::integral_constant<int, N>) {
      const Items<N> items{o.x.count * (half / N), half / N};
      launch("rotary", rotate<D, N>, blocks_of<at_once>(items), item_threads, stream, o, items);
    };
    const auto table_aligned = [](const A* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; };
    if (half % wide<D> == 0 && o.x.aligned(wide<D>) && o.out.aligned(wide<D>) && table_aligned(o.cosine) &&
        table_aligned(o.sine)) {
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
