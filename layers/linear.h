// A linear layer.
#pragma once

#include "layers/builder.h"
#include "layers/micro_batch.h"

namespace hexad::layers {

/// y[T, outputs] = x[T, inputs] weight^T + bias. Parameters "weight" [outputs, inputs] and, on request, "bias".
struct Linear {
  struct Config {
    int64_t inputs, outputs;
    double init_std;
    bool bias = false;
    Placement placement{};
  };
  Parameter* weight;
  Parameter* bias;

  Linear(const Config& c, const Builder& b)
      : weight(&b.parameter("weight", {c.outputs, c.inputs},
                            {.init = {Init::Kind::normal, c.init_std}, .placement = c.placement})),
        bias(c.bias ? &b.parameter("bias", {c.outputs}, {.init = {Init::Kind::constant, 0}, .decay = false})
                    : nullptr) {}

  Value operator()(Tape& t, const Value& x) const { return linear(t, x, *weight, bias); }
};

}  // namespace hexad::layers
