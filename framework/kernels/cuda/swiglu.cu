#include "framework/kernels/cuda/swiglu_gradient.cuh"
#include "framework/kernels/cuda/vectors.cuh"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cuda {

using namespace base;
namespace {

constexpr int at_once = 2;  // items per thread whose loads are in flight together

template <class D, class A = sum_t<D>>
struct Forward {
  Rows<D> out, gate, up;
  const A* weights;
};

template <class D, int N>
__global__ void __launch_bounds__(item_threads) forward_items(Forward<D> o, Items<N> items) {
  using A = sum_t<D>;
  Words<D, N> gate[at_once], up[at_once];
  A weight[at_once];
#pragma unroll
  for (int u = 0; u < at_once; ++u) {
    const int64_t i = item_of_thread<at_once>(u);
    if (i >= items.count) break;
    gate[u] = load_words<N>(items.at(o.gate, i));
    up[u] = load_words<N>(items.at(o.up, i));
    weight[u] = o.weights ? o.weights[items.row(i)] : A(1);
  }
#pragma unroll
  for (int u = 0; u < at_once; ++u) {
    const int64_t i = item_of_thread<at_once>(u);
    if (i >= items.count) break;
    const Vector<D, N> g = elements(gate[u]), v = elements(up[u]);
    Vector<D, N> y;
#pragma unroll
    for (int e = 0; e < N; ++e) {
      const A x = to<A>(g.at[e]);
      y.at[e] = to<D>(x * sigmoid<D>(x) * to<A>(v.at[e]) * weight[u]);
    }
    store(items.at(o.out, i), y);
  }
}

template <class D, class A = sum_t<D>>
struct Backward {
  Rows<D> dgate, dup, product;  // `product` has no data if it is not needed
  A* dweights;
  Rows<D> dout, gate, up;
  const A* weights;
};

template <class D, int N>
__global__ void __launch_bounds__(item_threads) backward_items(Backward<D> o, Items<N> items) {
  using A = sum_t<D>;
  SwigluGradientItem<D, N> item[at_once];
  A weight[at_once];
#pragma unroll
  for (int u = 0; u < at_once; ++u) {
    const int64_t i = item_of_thread<at_once>(u);
    if (i >= items.count) break;
    item[u].read(items.at(o.dout, i), items.at(o.gate, i), items.at(o.up, i));
    weight[u] = o.weights ? o.weights[items.row(i)] : A(1);
  }
#pragma unroll
  for (int u = 0; u < at_once; ++u) {
    const int64_t i = item_of_thread<at_once>(u);
    if (i >= items.count) break;
    D* product = o.product.data ? items.at(o.product, i) : nullptr;
    item[u].write(items.at(o.dgate, i), items.at(o.dup, i), product, weight[u]);
  }
}

/// Computes the gradients of rows and of their weights, with one warp per row.
template <class D, int N>
__global__ void __launch_bounds__(item_threads) backward_rows(Backward<D> o) {
  using A = sum_t<D>;
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const int64_t row = (int64_t{blockIdx.x} * item_threads + threadIdx.x) / warp_size;
  if (row >= o.dout.count) return;
  const D *dout = row_at(o.dout, row), *gate = row_at(o.gate, row), *up = row_at(o.up, row);
  D *dgate = row_at(o.dgate, row), *dup = row_at(o.dup, row);
  D* product = o.product.data ? row_at(o.product, row) : nullptr;
  const A weight = o.weights ? o.weights[row] : A(1);
  constexpr int step = warp_size * N;
  A dot = 0;
  for (int64_t top = lane * N; top < o.dout.width; top += at_once * step) {
    SwigluGradientItem<D, N> item[at_once];
#pragma unroll
    for (int u = 0; u < at_once; ++u) {
      const int64_t c = top + u * step;
      if (c < o.dout.width) item[u].read(dout + c, gate + c, up + c);
    }
#pragma unroll
    for (int u = 0; u < at_once; ++u) {
      const int64_t c = top + u * step;
      if (c < o.dout.width) dot += item[u].write(dgate + c, dup + c, product ? product + c : nullptr, weight);
    }
  }
  dot = warp_sum(dot);
  if (lane == 0) o.dweights[row] = dot;
}

void forward(Stream& stream, const Tensor& out, const Tensor& gate, const Tensor& up, const Tensor& weights) {
  require_shape("swiglu", "gate", gate, out.shape());
  require_shape("swiglu", "up", up, out.shape());
  with_dtype<float, bf16, double>("swiglu", out.dtype(), [&]<class T>() {
    using D = device_t<T>;
    Forward<D> o{.out = rows_of<T>("swiglu", out),
                 .gate = rows_of<T>("swiglu", gate),
                 .up = rows_of<T>("swiglu", up),
                 .weights = pointer<accumulator_t<T>>(weights)};
    if (weights.defined()) {
      require_flat("swiglu", "weights", weights, o.out.count);
    } else {
      merge_rows(o.out, o.gate, o.up);
    }
    with_items<wide<D>>(
        [&]<int N>(const Items<N>& items) {
          launch("swiglu", forward_items<D, N>, blocks_of<at_once>(items), item_threads, stream, o, items);
        },
        o.out, o.gate, o.up);
  });
}

void backward(Stream& stream, const SwigluGradients& gradients, const Tensor& dout, const SwigluSaved& saved) {
  const Tensor &dgate = gradients.dgate, &dup = gradients.dup, &product = gradients.product;
  const Tensor &dweights = gradients.dweights, &gate = saved.gate, &up = saved.up, &weights = saved.weights;
  for (const auto& [name, t] : {std::pair{"dgate", dgate}, {"dup", dup}, {"gate", gate}, {"up", up}})
    require_shape("swiglu", name, t, dout.shape());
  if (product.defined()) require_shape("swiglu", "product", product, dout.shape());
  with_dtype<float, bf16, double>("swiglu", dout.dtype(), [&]<class T>() {
    using D = device_t<T>;
    using A = accumulator_t<T>;
    Backward<D> o{.dgate = rows_of<T>("swiglu", dgate),
                  .dup = rows_of<T>("swiglu", dup),
                  .product = rows_if_defined<T>("swiglu", product),
                  .dweights = pointer<A>(dweights),
                  .dout = rows_of<T>("swiglu", dout),
                  .gate = rows_of<T>("swiglu", gate),
                  .up = rows_of<T>("swiglu", up),
                  .weights = pointer<A>(weights)};
    if (dweights.defined()) require_flat("swiglu", "dweights", dweights, o.dout.count);
    if (weights.defined()) require_flat("swiglu", "weights", weights, o.dout.count);
    if (!weights.defined() && !dweights.defined()) merge_rows(o.dout, o.gate, o.up, o.dgate, o.dup, o.product);
    with_items<wide<D>>(
        [&]<int N>(const Items<N>& items) {
          if (!dweights.defined())
            return launch("swiglu", backward_items<D, N>, blocks_of<at_once>(items), item_threads, stream, o, items);
          constexpr int64_t rows = item_threads / warp_size;  // rows per block
          launch("swiglu", backward_rows<D, N>, blocks_of(o.dout.count, rows), item_threads, stream, o);
        },
        o.dout, o.gate, o.up, o.dgate, o.dup, product.defined() ? o.product : o.dout);
  });
}

}  // namespace
}  // namespace hexad::kernels::cuda

namespace hexad::kernels {

const SwigluKernels SwigluKernels::of_cuda{.forward = cuda::forward, .backward = cuda::backward};

}  // namespace hexad::kernels
