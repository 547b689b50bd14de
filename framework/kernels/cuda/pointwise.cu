#include <bit>

#include "framework/kernels/cuda/total.cuh"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cuda {

using namespace tensor;
namespace {

template <class D>
struct Fill {
  D value;
  __device__ D operator()() const { return value; }
};

template <class D>
struct Copy {
  __device__ D operator()(D x) const { return x; }
};

template <class D>
struct Add {
  __device__ sum_t<D> operator()(D a, D b) const { return to<sum_t<D>>(a) + to<sum_t<D>>(b); }
};

template <class D, class X>
struct Axpy {
  sum_t<D> alpha;
  __device__ sum_t<D> operator()(D y, X x) const { return to<sum_t<D>>(y) + alpha * to<sum_t<D>>(x); }
};

template <class D>
struct Scale {
  sum_t<D> alpha;
  __device__ sum_t<D> operator()(D x) const { return to<sum_t<D>>(x) * alpha; }
};

// NaN remains NaN, because both comparisons with NaN are false. Later checks can therefore detect the NaN.
template <class D>
struct Clamp {
  sum_t<D> limit;
  __device__ sum_t<D> operator()(D x) const {
    const auto v = to<sum_t<D>>(x);
    return v > limit ? limit : (v < -limit ? -limit : v);
  }
};

template <class D>
struct ClampBackward {
  sum_t<D> limit;
  __device__ sum_t<D> operator()(D dout, D x) const {
    const auto v = to<sum_t<D>>(x);
    return v <= limit && v >= -limit ? to<sum_t<D>>(dout) : sum_t<D>(0);
  }
};

/// Maximum number of addends of one launch. Their addresses take 512 of the 4096 bytes of parameters that every card
/// accepts.
constexpr int max_addends = 64;
template <class D>
struct Addends {
  int count = 0;
  const D* at[max_addends];
};

/// Computes out = the sum of the addends, in items of N elements. `out` may be one of the addends, because each thread
/// reads an item of all addends before it writes the item.
template <class D, int N>
__global__ void __launch_bounds__(item_threads)
    sum_of_kernel(D* out, const __grid_constant__ Addends<D> addends, int64_t items) {
  using A = sum_t<D>;
  const int64_t i = int64_t{blockIdx.x} * item_threads + threadIdx.x;
  if (i >= items) return;
  const Vector<D, N> first = load<N>(addends.at[0] + i * N);
  Vector<A, N> sum;
#pragma unroll
  for (int e = 0; e < N; ++e) sum.at[e] = to<A>(first.at[e]);
  for (int a = 1; a < addends.count; ++a) {
    const Vector<D, N> x = load<N>(addends.at[a] + i * N);
#pragma unroll
    for (int e = 0; e < N; ++e) sum.at[e] += to<A>(x.at[e]);
  }
  Vector<D, N> y;
#pragma unroll
  for (int e = 0; e < N; ++e) y.at[e] = to<D>(sum.at[e]);
  store(out + i * N, y);
}

struct Itself {
  __device__ double operator()(double x) const { return x; }
};

/// Unsigned integer with the width of an element. Kernels that only copy elements are compiled once for each width.
template <class T>
using bits_t = std::conditional_t<
    sizeof(T) == 8, uint64_t,
    std::conditional_t<sizeof(T) == 4, uint32_t, std::conditional_t<sizeof(T) == 2, uint16_t, uint8_t>>>;

template <class T>
Rows<bits_t<T>> bits_of(const Rows<device_t<T>>& rows) {
  Rows<bits_t<T>> bits;
  bits.data = reinterpret_cast<bits_t<T>*>(rows.data);
  bits.count = rows.count;
  bits.width = rows.width;
  bits.levels = rows.levels;
  std::copy_n(rows.size, Rows<bits_t<T>>::max_levels, bits.size);
  std::copy_n(rows.stride, Rows<bits_t<T>>::max_levels, bits.stride);
  return bits;
}

void fill(Stream& stream, const Tensor& out, double value) {
  const int64_t n = out.numel();
  require_flat("fill", "out", out, n);
  with_dtype<float, bf16, double, int32_t, int64_t, uint8_t>("fill", out.dtype(), [&]<class T>() {
    T element;
    if constexpr (std::is_same_v<T, bf16>) {
      element = bf16(static_cast<float>(value));
    } else {
      element = static_cast<T>(value);
    }
    map("fill", stream, Fill<bits_t<T>>{std::bit_cast<bits_t<T>>(element)},
        one_row(reinterpret_cast<bits_t<T>*>(pointer<T>(out)), n));
  });
}

void copy(Stream& stream, const Tensor& out, const Tensor& x) {
  require_shape("copy", "out", out, x.shape());
  if (x.numel() == 0) return;
  if (out.dtype() == x.dtype() && out.contiguous() && x.contiguous()) {  // works even if both are in pinned host memory
    const auto queue = cuda_stream(stream).handle();
    return check(cudaMemcpyAsync(device_raw(out), device_raw(x), x.bytes(), cudaMemcpyDefault, queue.get()), "copy");
  }
  if (out.dtype() == x.dtype())
    return with_dtype<float, bf16, double, int32_t, int64_t, uint8_t>("copy", x.dtype(), [&]<class T>() {
      map("copy", stream, Copy<bits_t<T>>{}, bits_of<T>(rows_of<T>("copy", out)), bits_of<T>(rows_of<T>("copy", x)));
    });
  with_dtype<float, bf16, double>("copy", out.dtype(), [&]<class T>() {
    with_dtype<float, bf16, double>("copy", x.dtype(), [&]<class X>() {
      if constexpr (!std::is_same_v<T, X>)
        map("copy", stream, Copy<device_t<X>>{}, rows_of<T>("copy", out), rows_of<X>("copy", x));
    });
  });
}

void add(Stream& stream, const Tensor& out, const Tensor& a, const Tensor& b) {
  const int64_t n = out.numel();
  require_flat("add", "out", out, n);
  require_flat("add", "a", a, n);
  require_flat("add", "b", b, n);
  with_dtype<float, bf16, double>("add", out.dtype(), [&]<class T>() {
    map("add", stream, Add<device_t<T>>{}, one_row(pointer<T>(out), n), one_row(pointer<T>(a), n),
        one_row(pointer<T>(b), n));
  });
}

template <class T, class X>
void axpy_of(Stream& stream, const Tensor& out, double alpha, const Tensor& x) {
  using D = device_t<T>;
  const Rows<D> y = one_row(pointer<T>(out), out.numel());
  map("axpy", stream, Axpy<D, device_t<X>>{static_cast<sum_t<D>>(alpha)}, y, y, one_row(pointer<X>(x), x.numel()));
}

void axpy(Stream& stream, const Tensor& out, double alpha, const Tensor& x) {
  require_flat("axpy", "out", out, out.numel());
  require_flat("axpy", "x", x, out.numel());
  if (out.dtype() == Dtype::f32 && x.dtype() == Dtype::bf16) return axpy_of<float, bf16>(stream, out, alpha, x);
  with_dtype<float, bf16, double>("axpy", out.dtype(), [&]<class T>() { axpy_of<T, T>(stream, out, alpha, x); });
}

void scale(Stream& stream, const Tensor& out, double alpha) {
  const int64_t n = out.numel();
  require_flat("scale", "out", out, n);
  with_dtype<float, bf16, double>("scale", out.dtype(), [&]<class T>() {
    using D = device_t<T>;
    const Rows<D> y = one_row(pointer<T>(out), n);
    map("scale", stream, Scale<D>{static_cast<sum_t<D>>(alpha)}, y, y);
  });
}

void clamp(Stream& stream, const Tensor& out, const Tensor& x, double limit) {
  const int64_t n = x.numel();
  require_flat("clamp", "out", out, n);
  require_flat("clamp", "x", x, n);
  with_dtype<float, bf16, double>("clamp", x.dtype(), [&]<class T>() {
    using D = device_t<T>;
    map("clamp", stream, Clamp<D>{static_cast<sum_t<D>>(limit)}, one_row(pointer<T>(out), n),
        one_row(pointer<T>(x), n));
  });
}

void clamp_backward(Stream& stream, const Tensor& dx, const Tensor& dout, const Tensor& x, double limit) {
  const int64_t n = x.numel();
  require_flat("clamp", "x", x, n);
  require_flat("clamp", "dx", dx, n);
  require_flat("clamp", "dout", dout, n);
  with_dtype<float, bf16, double>("clamp", x.dtype(), [&]<class T>() {
    using D = device_t<T>;
    map("clamp", stream, ClampBackward<D>{static_cast<sum_t<D>>(limit)}, one_row(pointer<T>(dx), n),
        one_row(pointer<T>(dout), n), one_row(pointer<T>(x), n));
  });
}

void sum(Stream& stream, const Tensor& out, const Tensor& x, Write write) {
  total<Itself>("sum", stream, out, x, write);
}

void sum_of(Stream& stream, const Tensor& out, std::span<const Tensor> addends) {
  const int64_t n = out.numel();
  require(!addends.empty() && addends.size() <= max_addends, "[sum_of] there are ", addends.size(),
          " addends; expected a number from 1 to ", max_addends);
  require_flat("sum_of", "out", out, n);
  with_dtype<float, bf16, double>("sum_of", out.dtype(), [&]<class T>() {
    using D = device_t<T>;
    const Rows<D> y = one_row(pointer<T>(out), n);
    bool aligned = y.aligned(wide<D>);
    Addends<D> from;
    for (const Tensor& addend : addends) {
      require_flat("sum_of", "an addend", addend, n);
      from.at[from.count++] = pointer<T>(addend);
      aligned = aligned && one_row(pointer<T>(addend), n).aligned(wide<D>);
    }
    const auto start = [&]<int N>(std::integral_constant<int, N>) {
      const int64_t items = n / N;
      launch("sum_of", sum_of_kernel<D, N>, blocks_of(items, item_threads), item_threads, stream, y.data, from, items);
    };
    if (aligned)
      start(std::integral_constant<int, wide<D>>{});
    else
      start(std::integral_constant<int, 1>{});
  });
}

}  // namespace
}  // namespace hexad::kernels::cuda

namespace hexad::kernels {

const PointwiseKernels PointwiseKernels::of_cuda{.fill = cuda::fill,
                                                 .copy = cuda::copy,
                                                 .add = cuda::add,
                                                 .axpy = cuda::axpy,
                                                 .scale = cuda::scale,
                                                 .clamp = cuda::clamp,
                                                 .clamp_backward = cuda::clamp_backward,
                                                 .sum = cuda::sum,
                                                 .sum_of = cuda::sum_of};

}  // namespace hexad::kernels
