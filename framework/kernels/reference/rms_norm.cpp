#include "framework/kernels/kernel_table.h"
#include "framework/kernels/reference/array.h"

namespace hexad::kernels::reference {
namespace {

void forward(Stream& stream, const Tensor& out, const Tensor& sum, const Tensor& inverse_rms, const Tensor& x,
             const Tensor& addend, const Tensor& gain, double eps) {
  stream.run([=] {
    Array X = load(x);
    if (addend.defined()) {
      const Array Addend = load(addend);
      for (int64_t i = 0; i < X.size(); ++i) X[i] += Addend[i];
      store(sum, X);
      X = load(sum);  // reads the stored sum, because it is rounded
    }
    const Array G = load(gain);
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

// Computes dx = dresidual + r * (g * dy - n * mean(g * dy * n)) with n = x * r. Also computes dg, the sum of dy * n
// over the rows. r is the inverse root mean square, and g is the gain.
void backward(Stream& stream, const Tensor& dx, const Tensor& dgain_partials, const Tensor& dy, const Tensor& x,
              const Tensor& gain, const Tensor& inverse_rms, const Tensor& dresidual) {
  stream.run([=] {
    const Array DY = load(dy), X = load(x), G = load(gain), R = load(inverse_rms);
    Array DX = load_or_zeros(dresidual, x), DG = zeros(gain);
    for (int64_t t = 0; t < X.rows; ++t) {
      double mean = 0;
      for (int64_t d = 0; d < X.columns; ++d) mean += G[d] * DY(t, d) * X(t, d) * R[t] / static_cast<double>(X.columns);
      for (int64_t d = 0; d < X.columns; ++d) {
        DX(t, d) += R[t] * (G[d] * DY(t, d) - X(t, d) * R[t] * mean);
        DG[d] += DY(t, d) * X(t, d) * R[t];
      }
    }
    if (dx.defined()) store(dx, DX);
    if (dgain_partials.defined()) store(dgain_partials, DG);
  });
}

int64_t partials(int64_t) { return 1; }

}  // namespace
}  // namespace hexad::kernels::reference

namespace hexad::kernels {

const RmsNormKernels RmsNormKernels::of_reference{
    .forward = reference::forward, .backward = reference::backward, .partials = reference::partials};

}  // namespace hexad::kernels
