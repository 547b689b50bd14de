// Muon: momentum with orthogonalised update matrices (Jordan et al. 2024).
#pragma once

#include "optim/update_rule.h"

namespace hexad::optim {

/// Returns an approximately orthogonal matrix that has the singular vectors, shape and dtype of `direction` [rows,
/// columns]. Starts with direction / max(Frobenius norm, 1e-7), and runs Newton-Schulz iterations of degree 5 with the
/// coefficients of Jordan et al. 2024. The singular values of the result are near 1, except those that are zero or very
/// small in `direction`. Returns zeros if `direction` is not finite. Only launches kernels.
Tensor orthogonalised(Stream& stream, const Tensor& direction, int64_t iterations);

/// The rule of optim.name: muon, with the scale and the weight decay of Moonlight (Liu et al. 2025, arXiv:2502.16982):
///
///   m = mu * m + g
///   w -= lr * (0.2 * sqrt(max(rows, columns)) * orthogonalised(mu * m + g) + decay * w)
///
/// m is the momentum, g the gradient, w a weight matrix, and mu is optim.muon_momentum. The rule updates the matrices
/// of hidden layers. The matrices of each expert and of each stacked layer are updated separately. The rule `others`
/// updates everything else: embeddings, the head, routers, convolutions, parameters without decay (such as norms and
/// biases), vectors, matrices of one row or column, and the parameters of optim.muon_except.
class Muon final : public MatrixRule {
 public:
  Muon(const OptimConfig& config, std::unique_ptr<UpdateRule> others);

  std::vector<std::string> states() const override;
  std::vector<std::string> states_of(const Parameter::Spec& spec) const override;
  int64_t fewest_states() const override { return 1; }
  void update(Stream& stream, std::span<const Slice> slices, const UpdateStep& step) const override {
    fallback_->update(stream, slices, step);
  }
  bool only_launches_kernels() const override { return fallback_->only_launches_kernels(); }
  bool takes_matrices(const Parameter::Spec& spec) const override;
  void update_matrices(Stream& stream, const Slice& slice, const MatrixStep& step,
                       const dp::WholeMatrices& matrices) const override;

 private:
  double momentum_;
  int64_t iterations_;
  std::vector<std::string> except_;
  std::unique_ptr<UpdateRule> fallback_;
};

}  // namespace hexad::optim
