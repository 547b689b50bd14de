#include <cmath>

#include "framework/kernels/cpu/operands.h"
#include "framework/kernels/cpu/simd/pointwise_loops.h"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cpu {

using namespace base;
namespace {

template <class A>
A sigmoid(A x) {
  return 1 / (1 + std::exp(-x));
}

void forward(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& logits) {
  stream.run([=] {
    with_dtype<float, bf16, double>("row_gate", x.dtype(), [&]<class T>() {
      const Rows<T> X(x), Y(out);
      require_shape("row_gate", "out", out, x.shape());
      require_flat("row_gate", "logits", logits, X.count());
      const auto* logit = logits.data<accumulator_t<T>>();
      const auto scaled = choose<T>(v3::pointwise_loops, v4::pointwise_loops).scaled;
      parallel_for(X.count(), row_grain(X.width()), [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) scaled(Y[t], sigmoid(logit[t]), X[t], X.width());
      });
    });
  });
}

void backward(Stream& stream, const Tensor& dx, const Tensor& dlogits, const Tensor& dout, const Tensor& x,
              const Tensor& logits) {
  stream.run([=] {
    with_dtype<float, bf16, double>("row_gate", x.dtype(), [&]<class T>() {
      using A = accumulator_t<T>;
      const Rows<T> X(x), DX(dx), DY(dout);
      require_shape("row_gate", "dx", dx, x.shape());
      require_shape("row_gate", "dout", dout, x.shape());
      require_flat("row_gate", "logits", logits, X.count());
      require_flat("row_gate", "dlogits", dlogits, X.count());
      const A* logit = logits.data<A>();
      A* dlogit = dlogits.data<A>();
      const auto scale_and_dot = choose<T>(v3::pointwise_loops, v4::pointwise_loops).scale_and_dot;
      parallel_for(X.count(), row_grain(X.width()), [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
          const A gate = sigmoid(logit[t]);
          dlogit[t] = gate * sigmoid(-logit[t]) * scale_and_dot(DX[t], gate, DY[t], X[t], X.width());
        }
      });
    });
  });
}

}  // namespace
}  // namespace hexad::kernels::cpu

namespace hexad::kernels {

const RowGateKernels RowGateKernels::of_cpu{.forward = cpu::forward, .backward = cpu::backward};

}  // namespace hexad::kernels
