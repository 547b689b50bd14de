#include <algorithm>

#include "framework/kernels/kernel_table.h"
#include "framework/kernels/reference/array.h"

namespace hexad::kernels::reference {
namespace {

// The clamped operands of one element, and sigmoid(slope * gate).
struct Clamped {
  double gate, up, sigmoid;
  Clamped(double g, double u, double limit)
      : gate(std::min(g, limit)),
        up(std::clamp(u, -limit, limit)),
        sigmoid(1 / (1 + std::exp(-clamped_swiglu_slope * gate))) {}
  double product() const { return gate * sigmoid * (up + 1); }
};

double weight_of(const Array& weights, int64_t row) { return weights.values.empty() ? 1 : weights[row]; }
Array load_weights(const Tensor& weights) { return weights.defined() ? load(weights) : Array{}; }

void forward(Stream& stream, const Tensor& out, const Tensor& gate, const Tensor& up, const Tensor& weights,
             double limit) {
  stream.run([=] {
    const Array G = load(gate), U = load(up), W = load_weights(weights);
    Array Y = zeros(out);
    for (int64_t i = 0; i < Y.size(); ++i) Y[i] = Clamped(G[i], U[i], limit).product() * weight_of(W, i / Y.columns);
    store(out, Y);
  });
}

void backward(Stream& stream, const SwigluGradients& gradients, const Tensor& dout, const SwigluSaved& saved,
              double limit) {
  stream.run([=] {
    const auto& [dgate, dup, product, dweights] = gradients;
    const Array DY = load(dout), G = load(saved.gate), U = load(saved.up), W = load_weights(saved.weights);
    Array DG = zeros(dgate), DU = zeros(dup), P = zeros(dout);
    std::vector<double> DW(DY.rows);
    for (int64_t i = 0; i < DY.size(); ++i) {
      const Clamped c(G[i], U[i], limit);
      const double weight = weight_of(W, i / DY.columns), dp = weight * DY[i], s = c.sigmoid;
      if (G[i] <= limit) DG[i] = dp * (c.up + 1) * s * (1 + clamped_swiglu_slope * c.gate * (1 - s));
      if (std::abs(U[i]) <= limit) DU[i] = dp * c.gate * s;
      P[i] = c.product() * weight;
      DW[i / DY.columns] += DY[i] * c.product();
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

const ClampedSwigluKernels ClampedSwigluKernels::of_reference{.forward = reference::forward,
                                                              .backward = reference::backward};

}  // namespace hexad::kernels
