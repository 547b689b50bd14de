#include "framework/kernels/cpu/operands.h"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cpu {

using namespace base;
namespace {

void fill(Stream& stream, const Tensor& out, double value) {
  stream.run([=] {
    require_flat("fill", "out", out, out.numel());
    with_dtype<float, bf16, double, int32_t, int64_t, uint8_t>("fill", out.dtype(), [&]<class T>() {
      T element;
      if constexpr (std::is_same_v<T, bf16>)
        element = bf16(static_cast<float>(value));
      else
        element = static_cast<T>(value);
      parallel_elements(out.numel(), [element, y = out.data<T>()](int64_t begin, int64_t end) {
        std::fill(y + begin, y + end, element);
      });
    });
  });
}

// Calls `loop` on pieces of the tensors if both are contiguous, otherwise on each row.
template <class T, class X, class Loop>
void by_rows(const Tensor& out, const Tensor& x, const Loop& loop) {
  if (out.contiguous() && x.contiguous())
    return parallel_elements(x.numel(), [&, y = out.data<T>(), in = x.data<X>()](int64_t begin, int64_t end) {
      loop(y + begin, in + begin, end - begin);
    });
  const Rows<T> Y(out);
  const Rows<X> In(x);
  parallel_for(Y.count(), row_grain(Y.width()), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) loop(Y[t], In[t], Y.width());
  });
}

void copy(Stream& stream, const Tensor& out, const Tensor& x) {
  stream.run([=] {
    require_shape("copy", "out", out, x.shape());
    if (out.dtype() == x.dtype())
      return with_dtype<float, bf16, double, int32_t, int64_t, uint8_t>("copy", x.dtype(), [&]<class T>() {
        by_rows<T, T>(out, x, [](T* y, const T* in, int64_t n) { std::copy_n(in, n, y); });
      });
    with_dtype<float, bf16, double>("copy", out.dtype(), [&]<class T>() {
      with_dtype<float, bf16, double>("copy", x.dtype(), [&]<class X>() {
        by_rows<T, X>(out, x, choose<T>(v3::pointwise_loops, v4::pointwise_loops).convert.template from<X>());
      });
    });
  });
}

void add(Stream& stream, const Tensor& out, const Tensor& a, const Tensor& b) {
  stream.run([=] {
    const int64_t n = out.numel();
    require_flat("add", "out", out, n);
    require_flat("add", "a", a, n);
    require_flat("add", "b", b, n);
    with_dtype<float, bf16, double>("add", out.dtype(), [&]<class T>() {
      const auto loop = choose<T>(v3::pointwise_loops, v4::pointwise_loops).add;
      parallel_elements(n, [&, y = out.data<T>(), p = a.data<T>(), q = b.data<T>()](int64_t begin, int64_t end) {
        loop(y + begin, p + begin, q + begin, end - begin);
      });
    });
  });
}

void axpy(Stream& stream, const Tensor& out, double alpha, const Tensor& x) {
  stream.run([=] {
    const int64_t n = out.numel();
    require_flat("axpy", "out", out, n);
    require_flat("axpy", "x", x, n);
    with_dtype<float, bf16, double>("axpy", out.dtype(), [&]<class T>() {
      with_dtype<float, bf16, double>("axpy", x.dtype(), [&]<class X>() {
        const auto loop = choose<T>(v3::pointwise_loops, v4::pointwise_loops).axpy.template from<X>();
        parallel_elements(n, [&, y = out.data<T>(), in = x.data<X>()](int64_t begin, int64_t end) {
          loop(y + begin, alpha, in + begin, end - begin);
        });
      });
    });
  });
}

void scale(Stream& stream, const Tensor& out, double alpha) {
  stream.run([=] {
    require_flat("scale", "out", out, out.numel());
    with_dtype<float, bf16, double>("scale", out.dtype(), [&]<class T>() {
      const auto loop = choose<T>(v3::pointwise_loops, v4::pointwise_loops).scale;
      parallel_elements(out.numel(), [&, y = out.data<T>()](int64_t begin, int64_t end) {
        loop(y + begin, static_cast<accumulator_t<T>>(alpha), end - begin);
      });
    });
  });
}

void clamp(Stream& stream, const Tensor& out, const Tensor& x, double limit) {
  stream.run([=] {
    require_shape("clamp", "out", out, x.shape());
    with_dtype<float, bf16, double>("clamp", x.dtype(), [&]<class T>() {
      const auto loop = choose<T>(v3::pointwise_loops, v4::pointwise_loops).clamp;
      by_rows<T, T>(out, x,
                    [&](T* y, const T* in, int64_t n) { loop(y, in, static_cast<accumulator_t<T>>(limit), n); });
    });
  });
}

void clamp_backward(Stream& stream, const Tensor& dx, const Tensor& dout, const Tensor& x, double limit) {
  stream.run([=] {
    const int64_t n = x.numel();
    require_flat("clamp", "x", x, n);
    require_flat("clamp", "dx", dx, n);
    require_flat("clamp", "dout", dout, n);
    with_dtype<float, bf16, double>("clamp", x.dtype(), [&]<class T>() {
      const auto loop = choose<T>(v3::pointwise_loops, v4::pointwise_loops).clamp_backward;
      parallel_elements(n, [&, d = dx.data<T>(), g = dout.data<T>(), in = x.data<T>()](int64_t begin, int64_t end) {
        loop(d + begin, g + begin, in + begin, static_cast<accumulator_t<T>>(limit), end - begin);
      });
    });
  });
}

void sum(Stream& stream, const Tensor& out, const Tensor& x, Write write) {
  stream.run([=] {
    require_flat("sum", "out", out, 1);
    require_flat("sum", "x", x, x.numel());
    double total = 0;
    with_dtype<float, bf16, double>("sum", x.dtype(), [&]<class T>() {
      // A plain loop suffices, because the tensors summed here (losses, statistics) are short.
      total = sum_of_blocks(x.numel(), [in = x.data<T>()](int64_t begin, int64_t end) {
        double part = 0;
        for (int64_t i = begin; i < end; ++i) part += static_cast<double>(in[i]);
        return part;
      });
    });
    with_dtype<float, double>("sum", out.dtype(), [&]<class A>() {
      A* y = out.data<A>();
      *y = static_cast<A>(write == Write::add ? static_cast<double>(*y) + total : total);
    });
  });
}

// Sums the addends elementwise in [first, end), block by block. The sums of a block fit in the first-level cache, so
// that every addend is read once and the result is written once.
template <class T>
void sum_blocks(T* out, const std::vector<const T*>& addends, int64_t first, int64_t end) {
  using A = accumulator_t<T>;
  A sum[BlockSizes::max_cached_elements];
  const int64_t block = block_sizes().cached_elements;
  for (int64_t begin = first; begin < end; begin += block) {
    const int64_t n = std::min(block, end - begin);
    for (int64_t i = 0; i < n; ++i) sum[i] = static_cast<A>(addends[0][begin + i]);
    for (size_t a = 1; a < addends.size(); ++a) {
      const T* x = addends[a] + begin;
      for (int64_t i = 0; i < n; ++i) sum[i] += static_cast<A>(x[i]);
    }
    for (int64_t i = 0; i < n; ++i) out[begin + i] = static_cast<T>(sum[i]);
  }
}

void sum_of(Stream& stream, const Tensor& out, std::span<const Tensor> addends) {
  stream.run([=, addends = std::vector<Tensor>(addends.begin(), addends.end())] {
    require(!addends.empty(), "[sum_of] there are 0 addends; expected at least 1");
    require_flat("sum_of", "out", out, out.numel());
    with_dtype<float, bf16, double>("sum_of", out.dtype(), [&]<class T>() {
      std::vector<const T*> from;
      for (const Tensor& addend : addends) {
        require_flat("sum_of", "an addend", addend, out.numel());
        from.push_back(addend.data<T>());
      }
      parallel_elements(out.numel(),
                        [&, y = out.data<T>()](int64_t begin, int64_t end) { sum_blocks(y, from, begin, end); });
    });
  });
}

}  // namespace
}  // namespace hexad::kernels::cpu

namespace hexad::kernels {

const PointwiseKernels PointwiseKernels::of_cpu{.fill = cpu::fill,
                                                .copy = cpu::copy,
                                                .add = cpu::add,
                                                .axpy = cpu::axpy,
                                                .scale = cpu::scale,
                                                .clamp = cpu::clamp,
                                                .clamp_backward = cpu::clamp_backward,
                                                .sum = cpu::sum,
                                                .sum_of = cpu::sum_of};

}  // namespace hexad::kernels
