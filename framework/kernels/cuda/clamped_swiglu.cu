// SwiGLU with clamped operands. One warp computes one row.
#include "framework/kernels/cuda/vectors.cuh"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cuda {

using namespace base;
namespace {

constexpr int threads = 256, rows_per_block = threads / warp_size;

/// The clamped operands of one element, and sigmoid(slope * gate).
template <class D>
struct Clamped {
  using A = sum_t<D>;
  A gate, up, sigmoid_of_gate;

  __device__ __forceinline__ Clamped(A g, A u, A limit)
      : gate(limit < g ? limit : g),
        up(limit < u ? limit : (u < -limit ? -limit : u)),
        sigmoid_of_gate(sigmoid<D>(static_cast<A>(clamped_swiglu_slope) * gate)) {}
  __device__ __forceinline__ A product() const { return gate * sigmoid_of_gate * (up + 1); }
};

/// Returns the row that this thread's warp computes.
__device__ __forceinline__ int64_t row_of_warp() {
  return int64_t{blockIdx.x} * rows_per_block + threadIdx.x / warp_size;
}

template <class D>
__global__ void __launch_bounds__(threads)
    forward_rows(Rows<D> out, Rows<D> gate, Rows<D> up, const sum_t<D>* weights, sum_t<D> limit) {
  using A = sum_t<D>;
  const int64_t row = row_of_warp();
  if (row >= out.count) return;
  const D *const g = row_at(gate, row), *const u = row_at(up, row);
  D* const y = row_at(out, row);
  const A weight = weights ? weights[row] : A(1);
  for (int64_t c = static_cast<int>(threadIdx.x) % warp_size; c < out.width; c += warp_size)
    y[c] = to<D>(Clamped<D>(to<A>(g[c]), to<A>(u[c]), limit).product() * weight);
}

template <class D, class A = sum_t<D>>
struct Backward {
  Rows<D> dgate, dup, product;  // `product` has no data if it is not needed
  A* dweights;
  Rows<D> dout, gate, up;
  const A* weights;
  A limit;
};

/// Computes the gradients of rows, with one warp per row. Results may overwrite operands, because all operands of an
/// element are read before any result is written.
template <class D>
__global__ void __launch_bounds__(threads) backward_rows(Backward<D> o) {
  using A = sum_t<D>;
  const int64_t row = row_of_warp();
  if (row >= o.dout.count) return;
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const D *dout = row_at(o.dout, row), *gate = row_at(o.gate, row), *up = row_at(o.up, row);
  D *dgate = row_at(o.dgate, row), *dup = row_at(o.dup, row);
  D* product = o.product.data ? row_at(o.product, row) : nullptr;
  const A weight = o.weights ? o.weights[row] : A(1);
  A dot = 0;
  for (int64_t c = lane; c < o.dout.width; c += warp_size) {
    const A d = to<A>(dout[c]), g = to<A>(gate[c]), u = to<A>(up[c]);
    const Clamped<D> x(g, u, o.limit);
    const A s = x.sigmoid_of_gate, weighted = d * weight;
    const A slope = 1 + static_cast<A>(clamped_swiglu_slope) * x.gate * (1 - s);
    dot += d * x.product();
    dgate[c] = to<D>(g <= o.limit ? weighted * (x.up + 1) * s * slope : A(0));
    dup[c] = to<D>(u <= o.limit && u >= -o.limit ? weighted * x.gate * s : A(0));
    if (product) product[c] = to<D>(x.product() * weight);
  }
  dot = warp_sum(dot);
  if (lane == 0 && o.dweights) o.dweights[row] = dot;
}

void forward(Stream& stream, const Tensor& out, const Tensor& gate, const Tensor& up, const Tensor& weights,
             double limit) {
  require_shape("clamped_swiglu", "gate", gate, out.shape());
  require_shape("clamped_swiglu", "up", up, out.shape());
  with_dtype<float, bf16, double>("clamped_swiglu", out.dtype(), [&]<class T>() {
    using A = accumulator_t<T>;
    const auto y = rows_of<T>("clamped_swiglu", out);
    if (weights.defined()) require_flat("clamped_swiglu", "weights", weights, y.count);
    launch("clamped_swiglu", forward_rows<device_t<T>>, blocks_of(y.count, rows_per_block), threads, stream, y,
           rows_of<T>("clamped_swiglu", gate), rows_of<T>("clamped_swiglu", up), pointer<A>(weights),
           static_cast<A>(limit));
  });
}

void backward(Stream& stream, const SwigluGradients& gradients, const Tensor& dout, const SwigluSaved& saved,
              double limit) {
  const Tensor &dgate = gradients.dgate, &dup = gradients.dup, &product = gradients.product;
  const Tensor &dweights = gradients.dweights, &gate = saved.gate, &up = saved.up, &weights = saved.weights;
  for (const auto& [name, t] : {std::pair{"dgate", dgate}, {"dup", dup}, {"gate", gate}, {"up", up}})
    require_shape("clamped_swiglu", name, t, dout.shape());
  if (product.defined()) require_shape("clamped_swiglu", "product", product, dout.shape());
  with_dtype<float, bf16, double>("clamped_swiglu", dout.dtype(), [&]<class T>() {
    using A = accumulator_t<T>;
    const Backward<device_t<T>> o{.dgate = rows_of<T>("clamped_swiglu", dgate),
                                  .dup = rows_of<T>("clamped_swiglu", dup),
                                  .product = rows_if_defined<T>("clamped_swiglu", product),
                                  .dweights = pointer<A>(dweights),
                                  .dout = rows_of<T>("clamped_swiglu", dout),
                                  .gate = rows_of<T>("clamped_swiglu", gate),
                                  .up = rows_of<T>("clamped_swiglu", up),
                                  .weights = pointer<A>(weights),
                                  .limit = static_cast<A>(limit)};
    if (dweights.defined()) require_flat("clamped_swiglu", "dweights", dweights, o.dout.count);
    if (weights.defined()) require_flat("clamped_swiglu", "weights", weights, o.dout.count);
    launch("clamped_swiglu", backward_rows<device_t<T>>, blocks_of(o.dout.count, rows_per_block), threads, stream, o);
  });
}

}  // namespace
}  // namespace hexad::kernels::cuda

namespace hexad::kernels {

const ClampedSwigluKernels ClampedSwigluKernels::of_cuda{.forward = cuda::forward, .backward = cuda::backward};

}  // namespace hexad::kernels
