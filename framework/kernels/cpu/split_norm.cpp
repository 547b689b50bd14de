#include <cmath>

#include "framework/kernels/cpu/operands.h"
#include "framework/kernels/cpu/simd/norm_loops.h"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cpu {

using namespace base;
namespace {

// Calls f(begin, end) on pieces of the rows.
template <class T, class F>
void for_rows(const Rows<T>& rows, const F& f) {
  parallel_for(rows.count(), row_grain(rows.width()), f);
}

void forward(Stream& stream, const Tensor& out, const Tensor& inverse_rms, const Tensor& x, const Tensor& squares,
             const Tensor& gain, int64_t width, double eps) {
  stream.run([=] {
    with_dtype<float, bf16, double>("split_norm", x.dtype(), [&]<class T>() {
      using A = accumulator_t<T>;
      const Rows<T> X(x), Y(out);
      require_shape("split_norm", "out", out, x.shape());
      require_flat("split_norm", "inverse_rms", inverse_rms, X.count());
      require_flat("split_norm", "squares", squares, X.count());
      require_flat("split_norm", "gain", gain, X.width());
      A* r = inverse_rms.data<A>();
      const A* sums = squares.data<A>();
      const auto g = accumulators<A>(gain);
      const auto scale = choose<T>(v3::norm_loops, v4::norm_loops).rms_scale;
      for_rows(X, [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
          r[t] = 1 / std::sqrt(sums[t] / static_cast<A>(width) + static_cast<A>(eps));
          scale(Y[t], X[t], g.data(), r[t], X.width());
        }
      });
    });
  });
}

void dots(Stream& stream, const Tensor& out, const Tensor& dy, const Tensor& x, const Tensor& gain) {
  stream.run([=] {
    with_dtype<float, bf16, double>("split_norm", x.dtype(), [&]<class T>() {
      using A = accumulator_t<T>;
      const Rows<T> X(x), DY(dy);
      require_shape("split_norm", "dy", dy, x.shape());
      require_flat("split_norm", "out", out, X.count());
      require_flat("split_norm", "gain", gain, X.width());
      A* sums = out.data<A>();
      const auto g = accumulators<A>(gain);
      const auto dot = choose<T>(v3::norm_loops, v4::norm_loops).gain_dot;
      for_rows(X, [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) sums[t] = dot(DY[t], X[t], g.data(), X.width());
      });
    });
  });
}

void input_gradient(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& gain,
                    const Tensor& inverse_rms, const Tensor& dots, int64_t width) {
  stream.run([=] {
    with_dtype<float, bf16, double>("split_norm", x.dtype(), [&]<class T>() {
      using A = accumulator_t<T>;
      const Rows<T> X(x), DX(dx), DY(dy);
      require_shape("split_norm", "dx", dx, x.shape());
      require_shape("split_norm", "dy", dy, x.shape());
      require_flat("split_norm", "inverse_rms", inverse_rms, X.count());
      require_flat("split_norm", "dots", dots, X.count());
      require_flat("split_norm", "gain", gain, X.width());
      const A *r = inverse_rms.data<A>(), *sums = dots.data<A>();
      const auto g = accumulators<A>(gain);
      const auto gradient = choose<T>(v3::norm_loops, v4::norm_loops).rms_gradient;
      for_rows(X, [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t)
          gradient(DX[t], DY[t], X[t], g.data(), r[t], sums[t] * r[t] * r[t] / static_cast<A>(width), X.width());
      });
    });
  });
}

}  // namespace
}  // namespace hexad::kernels::cpu

namespace hexad::kernels {

const SplitNormKernels SplitNormKernels::of_cpu{
    .forward = cpu::forward, .dots = cpu::dots, .input_gradient = cpu::input_gradient};

}  // namespace hexad::kernels
