#include "framework/kernels/kernel_table.h"
#include "framework/kernels/reference/array.h"

namespace hexad::kernels::reference {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// Returns an array with the shape of `like` that contains the weight of each element's row.
Array weights_of(const Tensor& weights, const Tensor& like) {
  Array W = zeros(like);
  const Array Row = weights.defined() ? load(weights) : Array{};
  for (int64_t r = 0; r < W.rows; ++r)
    for (int64_t d = 0; d < W.columns; ++d) W(r, d) = weights.defined() ? Row[r] : 1;
  return W;
}

void forward(Stream& stream, const Tensor& out, const Tensor& gate, const Tensor& up, const Tensor& weights) {
  stream.run([=] {
    const Array G = load(gate), U = load(up), W = weights_of(weights, out);
    Array Y = zeros(out);
    for (int64_t i = 0; i < Y.size(); ++i) Y[i] = G[i] * sigmoid(G[i]) * U[i] * W[i];
    store(out, Y);
  });
}

void backward(Stream& stream, const SwigluGradients& gradients, const Tensor& dout, const SwigluSaved& saved) {
  stream.run([=] {
    const auto& [dgate, dup, product, dweights] = gradients;
    const Array DY = load(dout), G = load(saved.gate), U = load(saved.up), W = weights_of(saved.weights, dout);
    Array DG = zeros(dgate), DU = zeros(dup), P = zeros(dout);
    std::vector<double> DW(DY.rows);
    for (int64_t i = 0; i < DY.size(); ++i) {
      const double s = sigmoid(G[i]), dp = W[i] * DY[i];
      DG[i] = dp * U[i] * s * (1 + G[i] * (1 - s));
      DU[i] = dp * G[i] * s;
      P[i] = G[i] * s * U[i] * W[i];
      DW[i / DY.columns] += DY[i] * G[i] * s * U[i];
    }
    store(dgate, DG);
    store(dup, DU);
    if (product.defined()) store(product, P);
    if (dweights.defined()) store(dweights, {1, DY.rows, DW});
  });
}

}  // namespace
}  // namespace hexad::kernels::reference

namespace hexad::kernels {

const SwigluKernels SwigluKernels::of_reference{.forward = reference::forward, .backward = reference::backward};

}  // namespace hexad::kernels
