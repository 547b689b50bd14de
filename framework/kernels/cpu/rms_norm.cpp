#include "framework/kernels/cpu/families.h"
#include "framework/kernels/cpu/operands.h"
#include "framework/kernels/cpu/simd/norm_loops.h"

namespace hexad::kernels::cpu {
namespace {

void forward(Stream& stream, const Tensor& out, const Tensor& inverse_rms, const Tensor& x, const Tensor& gain,
             double eps) {
  stream.run([=] {
    with_dtype<float, bf16, double>("rms_norm", x.dtype(), [&]<class T>() {
      using A = accumulator_t<T>;
      const Rows<T> X(x), Y(out);
      require_shape("rms_norm", "out", out, x.shape());
      require_flat("rms_norm", "inverse_rms", inverse_rms, X.count());
      require_flat("rms_norm", "gain", gain, X.width());
      A* r = inverse_rms.data<A>();
      const auto g = accumulators<A>(gain);
      const auto row = choose<T>(v3::norm_loops, v4::norm_loops).rms_forward;
      parallel_for(X.count(), row_grain(X.width()), [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) r[t] = row(Y[t], X[t], g.data(), X.width(), static_cast<A>(eps));
      });
    });
  });
}

void input_gradient(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& gain,
                    const Tensor& inverse_rms) {
  stream.run([=] {
    with_dtype<float, bf16, double>("rms_norm", x.dtype(), [&]<class T>() {
      using A = accumulator_t<T>;
      const Rows<T> X(x), DX(dx), DY(dy);
      require_shape("rms_norm", "dx", dx, x.shape());
      require_shape("rms_norm", "dy", dy, x.shape());
      require_flat("rms_norm", "inverse_rms", inverse_rms, X.count());
      require_flat("rms_norm", "gain", gain, X.width());
      const A* r = inverse_rms.data<A>();
      const auto g = accumulators<A>(gain);
      const auto row = choose<T>(v3::norm_loops, v4::norm_loops).rms_input_gradient;
      parallel_for(X.count(), row_grain(X.width()), [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) row(DX[t], DY[t], X[t], g.data(), r[t], X.width());
      });
    });
  });
}

void weight_gradient(Stream& stream, const Tensor& dgain, const Tensor& dy, const Tensor& x,
                     const Tensor& inverse_rms) {
  stream.run([=] {
    with_dtype<float, bf16, double>("rms_norm", x.dtype(), [&]<class T>() {
      using A = accumulator_t<T>;
      const int64_t width = x.dim(-1), rows = Rows<T>(x).count();
      require_flat("rms_norm", "dgain", dgain, width);
      require_flat("rms_norm", "dy", dy, rows * width);
      require_flat("rms_norm", "x", x, rows * width);
      require_flat("rms_norm", "inverse_rms", inverse_rms, rows);
      const auto columns = choose<T>(v3::norm_loops, v4::norm_loops).rms_weight_gradient;
      parallel_columns(rows, width,
                       [&, dg = dgain.data<A>(), g = dy.data<T>(), in = x.data<T>(), r = inverse_rms.data<A>()](
                           int64_t c, int64_t n) { columns(dg + c, g + c, in + c, r, rows, width, n); });
    });
  });
}

}  // namespace

const RmsNormKernels rms_norm{.forward = forward, .input_gradient = input_gradient, .weight_gradient = weight_gradient};

}  // namespace hexad::kernels::cpu
