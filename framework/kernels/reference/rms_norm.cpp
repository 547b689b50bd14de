#include "framework/kernels/reference/array.h"
#include "framework/kernels/reference/families.h"

namespace hexad::kernels::reference {
namespace {

void forward(Stream& stream, const Tensor& out, const Tensor& inverse_rms, const Tensor& x, const Tensor& gain,
             double eps) {
  stream.run([=] {
    const Array X = load(x), G = load(gain);
    Array Y = zeros(out), R = zeros(inverse_rms);
    for (int64_t t = 0; t < X.rows; ++t) {
      double squares = 0;
      for (int64_t d = 0; d < X.columns; ++d) squares += X(t, d) * X(t, d);
      R[t] = 1 / std::sqrt(squares / static_cast<double>(X.columns) + eps);
      for (int64_t d = 0; d < X.columns; ++d) Y(t, d) = X(t, d) * R[t] * G[d];
    }
    store(out, Y);
    store(inverse_rms, R);
  });
}

// With n = x r, r = inverse rms: dx = r (g dy - n mean(g dy n)).
void input_gradient(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& gain,
                    const Tensor& inverse_rms) {
  stream.run([=] {
    const Array DY = load(dy), X = load(x), G = load(gain), R = load(inverse_rms);
    Array DX = zeros(dx);
    for (int64_t t = 0; t < X.rows; ++t) {
      double mean = 0;
      for (int64_t d = 0; d < X.columns; ++d) mean += G[d] * DY(t, d) * X(t, d) * R[t] / static_cast<double>(X.columns);
      for (int64_t d = 0; d < X.columns; ++d) DX(t, d) = R[t] * (G[d] * DY(t, d) - X(t, d) * R[t] * mean);
    }
    store(dx, DX);
  });
}

void weight_gradient(Stream& stream, const Tensor& dgain, const Tensor& dy, const Tensor& x,
                     const Tensor& inverse_rms) {
  stream.run([=] {
    const Array DY = load(dy), X = load(x), R = load(inverse_rms);
    Array DG = load(dgain);
    for (int64_t t = 0; t < X.rows; ++t)
      for (int64_t d = 0; d < X.columns; ++d) DG[d] += DY(t, d) * X(t, d) * R[t];
    store(dgain, DG);
  });
}

}  // namespace

const RmsNormKernels rms_norm{.forward = forward, .input_gradient = input_gradient, .weight_gradient = weight_gradient};

}  // namespace hexad::kernels::reference
