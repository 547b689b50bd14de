#include "framework/kernels/cuda/vectors.cuh"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cuda {

using namespace base;
namespace {

template <class D, class A = sum_t<D>>
constexpr A cubic = static_cast<A>(0.044715);
template <class D, class A = sum_t<D>>
constexpr A twice_sqrt_2_pi = static_cast<A>(1.59576912160573071176);
template <class D, class A = sum_t<D>>
constexpr A inverse_sqrt2 = static_cast<A>(0.70710678118654752440);
template <class D, class A = sum_t<D>>
constexpr A inverse_sqrt2pi = static_cast<A>(0.39894228040143267794);

template <class D>
struct ExactValue {
  __device__ sum_t<D> operator()(D x) const {
    const auto v = to<sum_t<D>>(x);
    return v / 2 * (1 + erf(v * inverse_sqrt2<D>));
  }
};

template <class D>
struct ExactGradient {
  __device__ sum_t<D> operator()(D dout, D x) const {
    const auto v = to<sum_t<D>>(x);
    const auto slope = (1 + erf(v * inverse_sqrt2<D>)) / 2 + v * exp(-v * v / 2) * inverse_sqrt2pi<D>;
    return to<sum_t<D>>(dout) * slope;
  }
};

// Uses (1 + tanh(z)) / 2 = sigmoid(2 z), which needs no tanh and avoids cancellation.
template <class D>
struct TanhValue {
  __device__ sum_t<D> operator()(D x) const {
    const auto v = to<sum_t<D>>(x);
    return v * sigmoid<D>(twice_sqrt_2_pi<D> * (v + cubic<D> * v * v * v));
  }
};

template <class D>
struct TanhGradient {
  __device__ sum_t<D> operator()(D dout, D x) const {
    const auto v = to<sum_t<D>>(x), u = twice_sqrt_2_pi<D> * (v + cubic<D> * v * v * v);
    // Computes the smaller of sigmoid(u) and 1 - sigmoid(u) directly, because one minus the larger value would lose
    // precision.
    const auto smaller = sigmoid<D>(-fabs(u)), larger = 1 - smaller;
    const auto s = u < 0 ? smaller : larger;
    const auto slope = s + v * smaller * larger * twice_sqrt_2_pi<D> * (1 + 3 * cubic<D> * v * v);
    return to<sum_t<D>>(dout) * slope;
  }
};

void forward(Stream& stream, const Tensor& out, const Tensor& x, GeluKind kind) {
  const int64_t n = x.numel();
  require_flat("gelu", "x", x, n);
  require_flat("gelu", "out", out, n);
  with_dtype<float, bf16, double>("gelu", x.dtype(), [&]<class T>() {
    using D = device_t<T>;
    const auto run = [&](auto f) { map("gelu", stream, f, one_row(pointer<T>(out), n), one_row(pointer<T>(x), n)); };
    kind == GeluKind::exact ? run(ExactValue<D>{}) : run(TanhValue<D>{});
  });
}

void backward(Stream& stream, const Tensor& dx, const Tensor& dout, const Tensor& x, GeluKind kind) {
  const int64_t n = x.numel();
  require_flat("gelu", "x", x, n);
  require_flat("gelu", "dx", dx, n);
  require_flat("gelu", "dout", dout, n);
  with_dtype<float, bf16, double>("gelu", x.dtype(), [&]<class T>() {
    using D = device_t<T>;
    const auto run = [&](auto f) {
      map("gelu", stream, f, one_row(pointer<T>(dx), n), one_row(pointer<T>(dout), n), one_row(pointer<T>(x), n));
    };
    kind == GeluKind::exact ? run(ExactGradient<D>{}) : run(TanhGradient<D>{});
  });
}

}  // namespace
}  // namespace hexad::kernels::cuda

namespace hexad::kernels {

const GeluKernels GeluKernels::of_cuda{.forward = cuda::forward, .backward = cuda::backward};

}  // namespace hexad::kernels
