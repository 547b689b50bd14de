#include "framework/kernels/cpu/operands.h"
#include "framework/kernels/cpu/simd/norm_loops.h"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cpu {

using namespace base;
namespace {

template <class A>
const A* data_or_null(const std::vector<A>& v) {
  return v.empty() ? nullptr : v.data();
}

void forward(Stream& stream, const Tensor& out, const Tensor& stats, const Tensor& x, const Tensor& gain,
             const Tensor& bias, double eps) {
  stream.run([=] {
    with_dtype<float, bf16, double>("layer_norm", x.dtype(), [&]<class T>() {
      using A = accumulator_t<T>;
      const Rows<T> X(x), Y(out);
      require_shape("layer_norm", "out", out, x.shape());
      require_flat("layer_norm", "stats", stats, 2 * X.count());
      require_flat("layer_norm", "gain", gain, X.width());
      if (bias.defined()) require_flat("layer_norm", "bias", bias, X.width());
      A* s = stats.data<A>();
      const auto g = accumulators<A>(gain), b = accumulators<A>(bias);
      const auto row = choose<T>(v3::norm_loops, v4::norm_loops).layer_forward;
      parallel_for(X.count(), row_grain(X.width()), [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t)
          row(Y[t], s + 2 * t, X[t], g.data(), data_or_null(b), X.width(), static_cast<A>(eps));
      });
    });
  });
}

void input_gradient(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& gain,
                    const Tensor& stats) {
  stream.run([=] {
    with_dtype<float, bf16, double>("layer_norm", x.dtype(), [&]<class T>() {
      using A = accumulator_t<T>;
      const Rows<T> X(x), DX(dx), DY(dy);
      require_shape("layer_norm", "dx", dx, x.shape());
      require_shape("layer_norm", "dy", dy, x.shape());
      require_flat("layer_norm", "stats", stats, 2 * X.count());
      require_flat("layer_norm", "gain", gain, X.width());
      const A* s = stats.data<A>();
      const auto g = accumulators<A>(gain);
      const auto row = choose<T>(v3::norm_loops, v4::norm_loops).layer_input_gradient;
      parallel_for(X.count(), row_grain(X.width()), [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) row(DX[t], DY[t], X[t], g.data(), s + 2 * t, X.width());
      });
    });
  });
}

void weight_gradient(Stream& stream, const Tensor& dgain, const Tensor& dbias, const Tensor& dy, const Tensor& x,
                     const Tensor& stats) {
  stream.run([=] {
    with_dtype<float, bf16, double>("layer_norm", x.dtype(), [&]<class T>() {
      using A = accumulator_t<T>;
      const int64_t width = x.dim(-1), rows = Rows<T>(x).count();
      require_flat("layer_norm", "dgain", dgain, width);
      require_flat("layer_norm", "dy", dy, rows * width);
      require_flat("layer_norm", "x", x, rows * width);
      require_flat("layer_norm", "stats", stats, 2 * rows);
      if (dbias.defined()) require_flat("layer_norm", "dbias", dbias, width);
      A* db = dbias.defined() ? dbias.data<A>() : nullptr;
      const auto& loops = choose<T>(v3::norm_loops, v4::norm_loops);
      parallel_columns(
          rows, width,
          [&, dg = dgain.data<A>(), g = dy.data<T>(), in = x.data<T>(), s = stats.data<A>()](int64_t c, int64_t n) {
            loops.layer_weight_gradient(dg + c, g + c, in + c, s, rows, width, n);
            if (db) loops.column_sums(db + c, g + c, rows, width, n);
          });
    });
  });
}

}  // namespace
}  // namespace hexad::kernels::cpu

namespace hexad::kernels {

const LayerNormKernels LayerNormKernels::of_cpu{
    .forward = cpu::forward, .input_gradient = cpu::input_gradient, .weight_gradient = cpu::weight_gradient};

}  // namespace hexad::kernels
