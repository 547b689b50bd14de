// Normalisation over the last dimension.
#pragma once

#include "layers/base/builder.h"
#include "layers/base/layer_names.h"
#include "layers/base/micro_batch.h"
#include "layers/base/model_config.h"

namespace hexad::layers {

using autograd::layer_norm;
using autograd::rms_norm;
using autograd::SumAndNorm;

/// RMSNorm, or LayerNorm with or without a bias. Its parameters are "weight", and "bias" if the norm has a bias. The
/// gain is initially one. The gain is one plus the weight if the norm is zero-centred; otherwise, it is the weight.
struct Norm {
  struct Config {
    int64_t size;
    NormKind kind;
    double eps;
    bool bias = false;                     // true: has a bias; only for LayerNorm
    std::optional<Placement> placement{};  // default: Builder::replicated()
  };
  Parameter *weight, *bias = nullptr;
  NormKind kind;
  double eps;

  Norm(const Config& c, const Builder& b)
      : weight(&b.parameter("weight", {c.size},
                            {.init = {Init::Kind::constant, c.kind == NormKind::zero_centred_rms_norm ? 0.0 : 1.0},
                             .decay = false,
                             .placement = c.placement})),
        kind(c.kind),
        eps(c.eps) {
    if (kind == NormKind::layer_norm && c.bias)
      bias =
          &b.parameter("bias", {c.size}, {.init = {Init::Kind::constant, 0}, .decay = false, .placement = c.placement});
  }

  Value operator()(Tape& t, const Value& x) const {
    return kind == NormKind::layer_norm ? layer_norm(t, x, *weight, bias, eps) : rms_norm(t, x, *weight, eps, base());
  }
  /// Returns x + addend, and the norm of this sum. RMSNorm computes both in one launch.
  SumAndNorm add_and_normalize(Tape& t, const Value& x, const Value& addend) const {
    if (kind != NormKind::layer_norm) return autograd::add_rms_norm(t, x, addend, *weight, eps, base());
    const Value sum = autograd::add(t, x, addend);
    return {.sum = sum, .normed = (*this)(t, sum)};
  }

 private:
  double base() const { return kind == NormKind::zero_centred_rms_norm ? 1 : 0; }
};

}  // namespace hexad::layers
