#include <numbers>

#include "framework/kernels/kernel_table.h"
#include "framework/kernels/reference/array.h"

namespace hexad::kernels::reference {
namespace {

// Argument inner(x) of the approximation x/2 (1 + tanh(inner(x))), and its derivative.
double inner(double x) { return std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x); }
double inner_slope(double x) { return std::sqrt(2 / std::numbers::pi) * (1 + 3 * 0.044715 * x * x); }

double value(double x, GeluKind kind) {
  return x / 2 * (1 + (kind == GeluKind::exact ? std::erf(x / std::numbers::sqrt2) : std::tanh(inner(x))));
}

double slope(double x, GeluKind kind) {
  if (kind == GeluKind::exact)
    return (1 + std::erf(x / std::numbers::sqrt2)) / 2 + x * std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
  const double t = std::tanh(inner(x));
  return (1 + t) / 2 + x / 2 * (1 - t * t) * inner_slope(x);
}

void forward(Stream& stream, const Tensor& out, const Tensor& x, GeluKind kind) {
  stream.run([=] {
    Array X = load(x);
    for (double& v : X.values) v = value(v, kind);
    store(out, X);
  });
}

void backward(Stream& stream, const Tensor& dx, const Tensor& dout, const Tensor& x, GeluKind kind) {
  stream.run([=] {
    const Array X = load(x);
    Array D = load(dout);
    for (int64_t i = 0; i < D.size(); ++i) D[i] *= slope(X[i], kind);
    store(dx, D);
  });
}

}  // namespace
}  // namespace hexad::kernels::reference

namespace hexad::kernels {

const GeluKernels GeluKernels::of_reference{.forward = reference::forward, .backward = reference::backward};

}  // namespace hexad::kernels
