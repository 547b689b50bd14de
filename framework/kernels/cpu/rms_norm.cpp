#include "framework/kernels/cpu/operands.h"
#include "framework/kernels/cpu/simd/norm_loops.h"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cpu {

using namespace base;
namespace {

void forward(Stream& stream, const Tensor& out, const Tensor& sum, const Tensor& inverse_rms, const Tensor& x,
             const Tensor& addend, const Tensor& gain, double eps) {
  stream.run([=] {
    with_dtype<float, bf16, double>("rms_norm", x.dtype(), [&]<class T>() {
      using A = accumulator_t<T>;
      const bool fused = addend.defined();
      require(fused == sum.defined(), "[rms_norm] only ", fused ? "addend" : "sum",
              " is defined; expected both sum and addend, or neither");
      const Rows<T> X(x), Y(out), Addend(fused ? addend : x), Sum(fused ? sum : x);
      require_shape("rms_norm", "out", out, x.shape());
      if (fused) require_shape("rms_norm", "addend", addend, x.shape());
      if (fused) require_shape("rms_norm", "sum", sum, x.shape());
      require_flat("rms_norm", "inverse_rms", inverse_rms, X.count());
      require_flat("rms_norm", "gain", gain, X.width());
      A* r = inverse_rms.data<A>();
      const auto g = accumulators<A>(gain);
      const auto row = choose<T>(v3::norm_loops, v4::norm_loops).rms_forward;
      const auto add = choose<T>(v3::pointwise_loops, v4::pointwise_loops).add;
      parallel_for(X.count(), row_grain(X.width()), [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
          if (fused) add(Sum[t], X[t], Addend[t], X.width());
          r[t] = row(Y[t], Sum[t], g.data(), X.width(), static_cast<A>(eps));
        }
      });
    });
  });
}

template <class T, class A = accumulator_t<T>>
void input_gradient(const Tensor& dx, const Tensor& dy, const Tensor& x, const A* gain, const A* r,
                    const Tensor& dresidual) {
  const bool residual = dresidual.defined();
  const Rows<T> X(x), DX(dx), DY(dy), DResidual(residual ? dresidual : dx);
  require_shape("rms_norm", "dx", dx, x.shape());
  if (residual) require_shape("rms_norm", "dresidual", dresidual, x.shape());
  const auto row = choose<T>(v3::norm_loops, v4::norm_loops).rms_input_gradient;
  parallel_for(X.count(), row_grain(X.width()), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t)
      row(DX[t], DY[t], X[t], gain, r[t], residual ? DResidual[t] : nullptr, X.width());
  });
}

template <class T, class A = accumulator_t<T>>
void gain_gradient(const Tensor& dgain, const Tensor& dy, const Tensor& x, const A* r) {
  const int64_t width = x.dim(-1), rows = Rows<T>(x).count();
  require_flat("rms_norm", "dgain_partials", dgain, width);
  require_flat("rms_norm", "dy", dy, rows * width);
  require_flat("rms_norm", "x", x, rows * width);
  const auto columns = choose<T>(v3::norm_loops, v4::norm_loops).rms_weight_gradient;
  parallel_columns(rows, width, [&, dg = dgain.data<A>(), g = dy.data<T>(), in = x.data<T>()](int64_t c, int64_t n) {
    std::fill_n(dg + c, n, A(0));
    columns(dg + c, g + c, in + c, r, rows, width, n);
  });
}

void backward(Stream& stream, const Tensor& dx, const Tensor& dgain_partials, const Tensor& dy, const Tensor& x,
              const Tensor& gain, const Tensor& inverse_rms, const Tensor& dresidual) {
  stream.run([=] {
    with_dtype<float, bf16, double>("rms_norm", x.dtype(), [&]<class T>() {
      using A = accumulator_t<T>;
      require_shape("rms_norm", "dy", dy, x.shape());
      require_flat("rms_norm", "inverse_rms", inverse_rms, Rows<T>(x).count());
      require_flat("rms_norm", "gain", gain, x.dim(-1));
      const A* r = inverse_rms.data<A>();
      if (dgain_partials.defined()) gain_gradient<T>(dgain_partials, dy, x, r);
      if (dx.defined()) input_gradient<T>(dx, dy, x, accumulators<A>(gain).data(), r, dresidual);
    });
  });
}

// Returns the number of partial sums. One partial sum suffices, because each thread sums different columns over all
// rows.
int64_t partials(int64_t) { return 1; }

}  // namespace
}  // namespace hexad::kernels::cpu

namespace hexad::kernels {

const RmsNormKernels RmsNormKernels::of_cpu{
    .forward = cpu::forward, .backward = cpu::backward, .partials = cpu::partials};

}  // namespace hexad::kernels
