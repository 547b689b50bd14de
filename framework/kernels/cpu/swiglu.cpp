#include "framework/kernels/cpu/families.h"
#include "framework/kernels/cpu/operands.h"
#include "framework/kernels/cpu/simd/activation_loops.h"

namespace hexad::kernels::cpu {
namespace {

void forward(Stream& stream, const Tensor& out, const Tensor& gate, const Tensor& up) {
  stream.run([=] {
    with_dtype<float, bf16, double>("swiglu", out.dtype(), [&]<class T>() {
      require_shape("swiglu", "gate", gate, out.shape());
      require_shape("swiglu", "up", up, out.shape());
      const Rows<T> Y(out), G(gate), U(up);
      const auto row = choose<T>(v3::activation_loops, v4::activation_loops).swiglu_forward;
      parallel_for(Y.count(), row_grain(Y.width()), [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) row(Y[t], G[t], U[t], Y.width());
      });
    });
  });
}

void backward(Stream& stream, const Tensor& dgate, const Tensor& dup, const Tensor& dout, const Tensor& gate,
              const Tensor& up) {
  stream.run([=] {
    with_dtype<float, bf16, double>("swiglu", dout.dtype(), [&]<class T>() {
      for (const auto& [name, t] : {std::pair{"dgate", dgate}, {"dup", dup}, {"gate", gate}, {"up", up}})
        require_shape("swiglu", name, t, dout.shape());
      const Rows<T> DG(dgate), DU(dup), DY(dout), G(gate), U(up);
      const auto row = choose<T>(v3::activation_loops, v4::activation_loops).swiglu_backward;
      parallel_for(DY.count(), row_grain(DY.width()), [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) row(DG[t], DU[t], DY[t], G[t], U[t], DY.width());
      });
    });
  });
}

}  // namespace

const SwigluKernels swiglu{.forward = forward, .backward = backward};

}  // namespace hexad::kernels::cpu
