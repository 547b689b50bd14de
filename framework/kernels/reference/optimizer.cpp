#include "framework/kernels/reference/array.h"
#include "framework/kernels/reference/families.h"

namespace hexad::kernels::reference {
namespace {

void adamw(Stream& stream, const Tensor& main, const Tensor& m, const Tensor& v, const Tensor& weights,
           const Tensor& gradient, const AdamwStep& step) {
  stream.run([=] {
    const Array G = load(gradient);
    Array W = load(main), M = load(m), V = load(v);
    const double correction1 = 1 - std::pow(step.beta1, static_cast<double>(step.step));
    const double correction2 = 1 - std::pow(step.beta2, static_cast<double>(step.step));
    for (int64_t i = 0; i < W.size(); ++i) {
      const double g = step.gradient_scale * G[i];
      M[i] = step.beta1 * M[i] + (1 - step.beta1) * g;
      V[i] = step.beta2 * V[i] + (1 - step.beta2) * g * g;
      const double update = M[i] / correction1 / (std::sqrt(V[i] / correction2) + step.eps);
      W[i] -= step.lr * (update + step.weight_decay * W[i]);
    }
    store(main, W);
    store(m, M);
    store(v, V);
    store(weights, load(main));
  });
}

void sgd(Stream& stream, const Tensor& main, const Tensor& weights, const Tensor& gradient, double lr,
         double gradient_scale) {
  stream.run([=] {
    const Array G = load(gradient);
    Array W = load(main);
    for (int64_t i = 0; i < W.size(); ++i) W[i] -= lr * gradient_scale * G[i];
    store(main, W);
    store(weights, load(main));
  });
}

double squared_norm(Stream& stream, const Tensor& x) {
  double sum = 0;
  stream.run([x, &sum] {
    for (double v : load(x).values) sum += v * v;
  });
  stream.synchronize();
  return sum;
}

}  // namespace

const OptimizerKernels optimizer{.adamw = adamw, .sgd = sgd, .squared_norm = squared_norm};

}  // namespace hexad::kernels::reference
