// A linear layer.
#pragma once

#include "layers/builder.h"
#include "layers/micro_batch.h"
#include "parallel/tp/linear.h"

namespace hexad::layers {

/// What of a linear layer is cut over tp ranks: nothing, its outputs (column-parallel: tp::column_linear), or its
/// inputs (row-parallel: tp::row_linear).
enum class Cut : uint8_t { none, outputs, inputs };

/// y[T, outputs] = x[T, inputs] weight^T + bias. Parameters "weight" [outputs, inputs] and, on request, "bias".
struct Linear {
  struct Config {
    int64_t inputs, outputs;
    double init_std;
    bool bias = false;
    Cut cut = Cut::none;
    int64_t pieces = 0;  // of the outputs, when more ranks than pieces share them (key/value heads); 0: one a rank
  };
  Parameter* weight;
  Parameter* bias;

  Linear(const Config& c, const Builder& b)
      : weight(&b.parameter("weight", {c.outputs, c.inputs},
                            {.init = {Init::Kind::normal, c.init_std},
                             .placement = c.cut == Cut::none      ? b.replicated()
                                          : c.cut == Cut::outputs ? b.cut(0, c.pieces)
                                                                  : b.cut(1)})),
        bias(c.bias ? &b.parameter("bias", {c.outputs},
                                   {.init = {Init::Kind::constant, 0},
                                    .decay = false,
                                    .placement = c.cut == Cut::outputs ? b.cut(0, c.pieces) : b.replicated()})
                    : nullptr) {}

  /// Of a layer that is not cut.
  Value operator()(Tape& t, const Value& x) const { return linear(t, x, *weight, bias); }
  /// For tp::column_linear.
  tp::Projection projection() const { return {weight, bias}; }
};

}  // namespace hexad::layers
