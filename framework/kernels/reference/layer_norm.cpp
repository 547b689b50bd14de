#include "framework/kernels/kernel_table.h"
#include "framework/kernels/reference/array.h"

namespace hexad::kernels::reference {
namespace {

void forward(Stream& stream, const Tensor& out, const Tensor& stats, const Tensor& x, const Tensor& gain,
             const Tensor& bias, double eps) {
  stream.run([=] {
    const Array X = load(x), G = load(gain), B = bias.defined() ? load(bias) : zeros(gain);
    Array Y = zeros(out), S = zeros(stats);
    for (int64_t t = 0; t < X.rows; ++t) {
      double mean = 0, variance = 0;
      for (int64_t d = 0; d < X.columns; ++d) mean += X(t, d) / static_cast<double>(X.columns);
      for (int64_t d = 0; d < X.columns; ++d)
        variance += (X(t, d) - mean) * (X(t, d) - mean) / static_cast<double>(X.columns);
      S(t, 0) = mean;
      S(t, 1) = 1 / std::sqrt(variance + eps);
      for (int64_t d = 0; d < X.columns; ++d) Y(t, d) = (X(t, d) - mean) * S(t, 1) * G[d] + B[d];
    }
    store(out, Y);
    store(stats, S);
  });
}

// Computes dx = r * (g * dy - mean(g * dy) - n * mean(g * dy * n)) with n = (x - mean) * r. r is the inverse standard
// deviation, and g is the gain.
void input_gradient(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& gain,
                    const Tensor& stats) {
  stream.run([=] {
    const Array DY = load(dy), X = load(x), G = load(gain), S = load(stats);
    Array DX = zeros(dx);
    for (int64_t t = 0; t < X.rows; ++t) {
      const double mean = S(t, 0), r = S(t, 1), count = static_cast<double>(X.columns);
      double mean_g = 0, mean_gn = 0;
      for (int64_t d = 0; d < X.columns; ++d) {
        mean_g += G[d] * DY(t, d) / count;
        mean_gn += G[d] * DY(t, d) * (X(t, d) - mean) * r / count;
      }
      for (int64_t d = 0; d < X.columns; ++d)
        DX(t, d) = r * (G[d] * DY(t, d) - mean_g - (X(t, d) - mean) * r * mean_gn);
    }
    store(dx, DX);
  });
}

void weight_gradient(Stream& stream, const Tensor& dgain, const Tensor& dbias, const Tensor& dy, const Tensor& x,
                     const Tensor& stats) {
  stream.run([=] {
    const Array DY = load(dy), X = load(x), S = load(stats);
    Array DG = load(dgain), DB = dbias.defined() ? load(dbias) : zeros(dgain);
    for (int64_t t = 0; t < X.rows; ++t)
      for (int64_t d = 0; d < X.columns; ++d) {
        DG[d] += DY(t, d) * (X(t, d) - S(t, 0)) * S(t, 1);
        DB[d] += DY(t, d);
      }
    store(dgain, DG);
    if (dbias.defined()) store(dbias, DB);
  });
}

}  // namespace
}  // namespace hexad::kernels::reference

namespace hexad::kernels {

const LayerNormKernels LayerNormKernels::of_reference{.forward = reference::forward,
                                                      .input_gradient = reference::input_gradient,
                                                      .weight_gradient = reference::weight_gradient};

}  // namespace hexad::kernels
