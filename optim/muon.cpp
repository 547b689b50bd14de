#include "optim/muon.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "framework/base/name_pattern.h"
#include "framework/kernels/kernel_table.h"

namespace hexad::optim {

using namespace base;
using kernels::Write;
namespace {

constexpr double least_norm =
    1e-7;  // minimum of the norm by which matrices are divided; Jordan et al. 2024 add it to the norm instead

// Coefficients a, b and c of the polynomial a s + b s^3 + c s^5, applied to the singular values s (Jordan et al. 2024).
constexpr double linear = 3.4445, cubic = -4.7750, quintic = 2.0315;

// Returns shell patterns for the parameters that the rule `others` always updates: embeddings, the head, routers and
// convolutions.
const std::vector<std::string>& never() {
  static const std::vector<std::string> names{"*embedding.weight", "head.weight", "*.router.*", "*_conv.weight"};
  return names;
}

Tensor flat(const Tensor& t) { return t.reshape({-1}); }

// Returns x / max(|x|, least_norm). Only launches kernels, so the host does not wait for the norm.
Tensor normalised(Stream& stream, const Tensor& x) {
  const auto& k = kernels::kernels(x.device());
  const Tensor squares = Tensor::empty({1}, Dtype::f64, x.device()), factor = Tensor::like(squares),
               out = Tensor::like(x);
  k.optimizer.squared_norm(stream, squares, flat(x), Write::replace);
  k.optimizer.clip(stream, factor, squares, least_norm);  // min(1, least_norm / |x|)
  k.pointwise.fill(stream, out, 0.0);
  k.optimizer.sgd(stream, flat(out), flat(out), flat(x), -1 / least_norm, factor);
  return out;
}

}  // namespace

Tensor orthogonalised(Stream& stream, const Tensor& direction, int64_t iterations) {
  const auto& k = kernels::kernels(direction.device());
  const bool wide = direction.dim(0) <= direction.dim(1);
  const int64_t side = std::min(direction.dim(0), direction.dim(1));
  Tensor x = normalised(stream, direction), next = Tensor::like(direction);
  const Tensor gram = Tensor::empty({side, side}, x.dtype(), x.device()), square = Tensor::like(gram);
  for (int64_t i = 0; i < iterations; ++i) {
    if (wide)
      k.matmul.forward(stream, gram, x, x, Write::replace);  // x x^T
    else
      k.matmul.weight_gradient(stream, gram, x, x, Write::replace);  // x^T x
    k.matmul.forward(stream, square, gram, gram, Write::replace);    // gram is symmetric
    k.pointwise.scale(stream, gram, cubic);
    k.pointwise.axpy(stream, gram, quintic, square);
    k.pointwise.copy(stream, next, x);
    k.pointwise.scale(stream, next, linear);
    if (wide)
      k.matmul.input_gradient(stream, next, gram, x, Write::add);
    else
      k.matmul.forward(stream, next, x, gram, Write::add);
    std::swap(x, next);
  }
  return x;
}

Muon::Muon(const OptimConfig& config, std::unique_ptr<UpdateRule> others)
    : momentum_(config.muon_momentum),
      iterations_(config.muon_iterations),
      except_(config.muon_except),
      fallback_(std::move(others)) {}

std::vector<std::string> Muon::states() const {
  std::vector<std::string> all = fallback_->states();
  all.emplace_back("momentum");
  return all;
}

std::vector<std::string> Muon::states_of(const Parameter::Spec& spec) const {
  return takes_matrices(spec) ? std::vector<std::string>{"momentum"} : fallback_->states_of(spec);
}

bool Muon::takes_matrices(const Parameter::Spec& spec) const {
  const Shape& shape = spec.global_shape;
  if (!spec.decay || shape.rank() < 2 || std::min(shape[-1], shape[-2]) < 2) return false;
  return !matches_any(never(), spec.name) && !matches_any(except_, spec.name);
}

void Muon::update_matrices(Stream& stream, const Slice& slice, const MatrixStep& step,
                           const dp::WholeMatrices& matrices) const {
  const auto& k = kernels::kernels(matrices.device()).pointwise;
  const bool owns = slice.main.defined();
  Tensor direction;
  if (owns) {
    const Tensor& momentum = slice.states[0];
    k.scale(stream, momentum, momentum_);
    k.axpy(stream, momentum, step.factor, slice.gradient);
    direction = Tensor::like(momentum);
    k.copy(stream, direction, momentum);
    k.scale(stream, direction, momentum_);
    k.axpy(stream, direction, step.factor, slice.gradient);
  }
  const Tensor whole = matrices.gather(direction, stream);
  if (!owns) return;
  for (int64_t m = 0; m < matrices.count(); ++m)
    if (matrices.owns_part_of(m)) {
      const Tensor matrix = kernels::expert_matrix(whole, m);
      k.copy(stream, matrix, orthogonalised(stream, matrix, iterations_));
    }
  const double scale = 0.2 * std::sqrt(static_cast<double>(std::max(matrices.rows(), matrices.columns())));
  k.scale(stream, slice.main, 1 - step.lr * slice.weight_decay);
  k.axpy(stream, slice.main, -step.lr * scale, matrices.owned(whole, stream));
  if (slice.weights.storage() != slice.main.storage()) k.copy(stream, slice.weights, slice.main);
}

}  // namespace hexad::optim
