// Normalisation over the last dimension.
#pragma once

#include "layers/builder.h"
#include "layers/micro_batch.h"
#include "layers/model_config.h"

namespace hexad::layers {

/// RMSNorm with "weight", or LayerNorm with "weight" and "bias"; gains start at one.
struct Norm {
  struct Config {
    int64_t size;
    NormKind kind;
    double eps;
  };
  Parameter *weight, *bias = nullptr;
  double eps;

  Norm(const Config& c, const Builder& b)
      : weight(&b.parameter("weight", {c.size}, {.init = {Init::Kind::constant, 1}, .decay = false})), eps(c.eps) {
    if (c.kind == NormKind::layer_norm)
      bias = &b.parameter("bias", {c.size}, {.init = {Init::Kind::constant, 0}, .decay = false});
  }

  Value operator()(Tape& t, const Value& x) const {
    return bias ? layer_norm(t, x, *weight, bias, eps) : rms_norm(t, x, *weight, eps);
  }
};

}  // namespace hexad::layers
