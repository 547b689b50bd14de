#include <algorithm>
#include <cmath>

#include "framework/kernels/kernel_table.h"
#include "framework/kernels/reference/array.h"

namespace hexad::kernels::reference {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

void forward(Stream& stream, const Tensor& log_decay, const Tensor& strength, const DeltaGateOperands& o) {
  stream.run([=] {
    const Array D = load(o.decay), W = load(o.write), R = load(o.log_rate), S = load(o.shift);
    Array G = zeros(log_decay), B = zeros(strength);
    for (int64_t t = 0; t < D.rows; ++t)
      for (int64_t h = 0; h < D.columns; ++h) {
        G(t, h) = -std::exp(R[h]) * softplus(D(t, h) + S[h]);
        B(t, h) = sigmoid(W(t, h));
      }
    store(log_decay, G);
    store(strength, B);
  });
}

void backward(Stream& stream, const DeltaGateGradients& g, const Tensor& dlog_decay, const Tensor& dstrength,
              const DeltaGateOperands& o) {
  stream.run([=] {
    const Array D = load(o.decay), W = load(o.write), R = load(o.log_rate), S = load(o.shift);
    const Array DG = load(dlog_decay), DB = load(dstrength);
    Array DD = zeros(g.ddecay), DW = zeros(g.dwrite), rates = zeros(g.rates), shifts = zeros(g.shifts);
    for (int64_t t = 0; t < D.rows; ++t)
      for (int64_t h = 0; h < D.columns; ++h) {
        const double x = D(t, h) + S[h], rate = std::exp(R[h]);
        DD(t, h) = shifts(t, h) = -DG(t, h) * rate * sigmoid(x);
        rates(t, h) = -DG(t, h) * rate * softplus(x);
        DW(t, h) = DB(t, h) * sigmoid(W(t, h)) * sigmoid(-W(t, h));
      }
    store(g.ddecay, DD);
    store(g.dwrite, DW);
    store(g.rates, rates);
    store(g.shifts, shifts);
  });
}

}  // namespace
}  // namespace hexad::kernels::reference

namespace hexad::kernels {

const DeltaGateKernels DeltaGateKernels::of_reference{.forward = reference::forward, .backward = reference::backward};

}  // namespace hexad::kernels
