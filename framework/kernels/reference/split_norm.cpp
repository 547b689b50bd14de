#include "framework/kernels/kernel_table.h"
#include "framework/kernels/reference/array.h"

namespace hexad::kernels::reference {
namespace {

void forward(Stream& stream, const Tensor& out, const Tensor& inverse_rms, const Tensor& x, const Tensor& squares,
             const Tensor& gain, int64_t width, double eps) {
  stream.run([=] {
    const Array X = load(x), S = load(squares), G = load(gain);
    Array Y = zeros(out), R = zeros(inverse_rms);
    for (int64_t t = 0; t < X.rows; ++t) {
      R[t] = 1 / std::sqrt(S[t] / static_cast<double>(width) + eps);
      for (int64_t d = 0; d < X.columns; ++d) Y(t, d) = X(t, d) * R[t] * G[d];
    }
    store(out, Y);
    store(inverse_rms, R);
  });
}

void dots(Stream& stream, const Tensor& out, const Tensor& dy, const Tensor& x, const Tensor& gain) {
  stream.run([=] {
    const Array DY = load(dy), X = load(x), G = load(gain);
    Array Sum = zeros(out);
    for (int64_t t = 0; t < X.rows; ++t)
      for (int64_t d = 0; d < X.columns; ++d) Sum[t] += G[d] * DY(t, d) * X(t, d);
    store(out, Sum);
  });
}

void input_gradient(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& gain,
                    const Tensor& inverse_rms, const Tensor& dots, int64_t width) {
  stream.run([=] {
    const Array DY = load(dy), X = load(x), G = load(gain), R = load(inverse_rms), S = load(dots);
    Array DX = zeros(dx);
    for (int64_t t = 0; t < X.rows; ++t)
      for (int64_t d = 0; d < X.columns; ++d)
        DX(t, d) = R[t] * (G[d] * DY(t, d) - X(t, d) * R[t] * R[t] * S[t] / static_cast<double>(width));
    store(dx, DX);
  });
}

}  // namespace
}  // namespace hexad::kernels::reference

namespace hexad::kernels {

const SplitNormKernels SplitNormKernels::of_reference{
    .forward = reference::forward, .dots = reference::dots, .input_gradient = reference::input_gradient};

}  // namespace hexad::kernels
