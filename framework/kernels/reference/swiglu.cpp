#include "framework/kernels/reference/array.h"
#include "framework/kernels/reference/families.h"

namespace hexad::kernels::reference {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

void forward(Stream& stream, const Tensor& out, const Tensor& gate, const Tensor& up) {
  stream.run([=] {
    const Array G = load(gate), U = load(up);
    Array Y = zeros(out);
    for (int64_t i = 0; i < Y.size(); ++i) Y[i] = G[i] * sigmoid(G[i]) * U[i];
    store(out, Y);
  });
}

void backward(Stream& stream, const Tensor& dgate, const Tensor& dup, const Tensor& dout, const Tensor& gate,
              const Tensor& up) {
  stream.run([=] {
    const Array DY = load(dout), G = load(gate), U = load(up);
    Array DG = zeros(dgate), DU = zeros(dup);
    for (int64_t i = 0; i < DY.size(); ++i) {
      const double s = sigmoid(G[i]);
      DG[i] = DY[i] * U[i] * s * (1 + G[i] * (1 - s));
      DU[i] = DY[i] * G[i] * s;
    }
    store(dgate, DG);
    store(dup, DU);
  });
}

}  // namespace

const SwigluKernels swiglu{.forward = forward, .backward = backward};

}  // namespace hexad::kernels::reference
