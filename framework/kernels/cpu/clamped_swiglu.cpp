#include "framework/kernels/cpu/operands.h"
#include "framework/kernels/cpu/simd/activation_loops.h"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cpu {

using namespace base;
namespace {

void forward(Stream& stream, const Tensor& out, const Tensor& gate, const Tensor& up, const Tensor& weights,
             double limit) {
  stream.run([=] {
    with_dtype<float, bf16, double>("clamped_swiglu", out.dtype(), [&]<class T>() {
      using A = accumulator_t<T>;
      require_shape("clamped_swiglu", "gate", gate, out.shape());
      require_shape("clamped_swiglu", "up", up, out.shape());
      const Rows<T> Y(out), G(gate), U(up);
      const A* w = row_scalars<T>("clamped_swiglu", "weights", weights, Y.count());
      const auto row = choose<T>(v3::activation_loops, v4::activation_loops).clamped_swiglu_forward;
      parallel_for(Y.count(), row_grain(Y.width()), [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t)
          row(Y[t], G[t], U[t], w ? w[t] : A(1), static_cast<A>(clamped_swiglu_slope), static_cast<A>(limit),
              Y.width());
      });
    });
  });
}

void backward(Stream& stream, const SwigluGradients& gradients, const Tensor& dout, const SwigluSaved& saved,
              double limit) {
  stream.run([=] {
    const Tensor &dgate = gradients.dgate, &dup = gradients.dup, &product = gradients.product;
    const Tensor &gate = saved.gate, &up = saved.up;
    with_dtype<float, bf16, double>("clamped_swiglu", dout.dtype(), [&]<class T>() {
      using A = accumulator_t<T>;
      for (const auto& [name, t] : {std::pair{"dgate", dgate}, {"dup", dup}, {"gate", gate}, {"up", up}})
        require_shape("clamped_swiglu", name, t, dout.shape());
      if (product.defined()) require_shape("clamped_swiglu", "product", product, dout.shape());
      const Rows<T> DG(dgate), DU(dup), DY(dout), G(gate), U(up), P(product.defined() ? product : dout);
      const A* w = row_scalars<T>("clamped_swiglu", "weights", saved.weights, DY.count());
      A* dw = row_scalars<T>("clamped_swiglu", "dweights", gradients.dweights, DY.count());
      const auto row = choose<T>(v3::activation_loops, v4::activation_loops).clamped_swiglu_backward;
      parallel_for(DY.count(), row_grain(DY.width()), [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
          const A gradient = row({.dgate = DG[t],
                                  .dup = DU[t],
                                  .product = product.defined() ? P[t] : nullptr,
                                  .dout = DY[t],
                                  .gate = G[t],
                                  .up = U[t],
                                  .weight = w ? w[t] : A(1),
                                  .slope = static_cast<A>(clamped_swiglu_slope),
                                  .limit = static_cast<A>(limit)},
                                 DY.width());
          if (dw) dw[t] = gradient;
        }
      });
    });
  });
}

}  // namespace
}  // namespace hexad::kernels::cpu

namespace hexad::kernels {

const ClampedSwigluKernels ClampedSwigluKernels::of_cpu{.forward = cpu::forward, .backward = cpu::backward};

}  // namespace hexad::kernels
