#include "framework/kernels/kernel_table.h"
#include "framework/kernels/reference/array.h"

namespace hexad::kernels::reference {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

void forward(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& logits) {
  stream.run([=] {
    Array Y = load(x);
    const Array L = load(logits);
    for (int64_t t = 0; t < Y.rows; ++t)
      for (int64_t d = 0; d < Y.columns; ++d) Y(t, d) *= sigmoid(L[t]);
    store(out, Y);
  });
}

void backward(Stream& stream, const Tensor& dx, const Tensor& dlogits, const Tensor& dout, const Tensor& x,
              const Tensor& logits) {
  stream.run([=] {
    const Array DY = load(dout), X = load(x), L = load(logits);
    Array DX = zeros(dx), DL = zeros(dlogits);
    for (int64_t t = 0; t < X.rows; ++t) {
      const double gate = sigmoid(L[t]), slope = gate * sigmoid(-L[t]);
      for (int64_t d = 0; d < X.columns; ++d) {
        DX(t, d) = DY(t, d) * gate;
        DL[t] += slope * DY(t, d) * X(t, d);
      }
    }
    store(dx, DX);
    store(dlogits, DL);
  });
}

}  // namespace
}  // namespace hexad::kernels::reference

namespace hexad::kernels {

const RowGateKernels RowGateKernels::of_reference{.forward = reference::forward, .backward = reference::backward};

}  // namespace hexad::kernels
