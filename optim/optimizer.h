// Turns gradients into new weights.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "framework/autograd/parameter.h"
#include "optim/update_rule.h"

namespace hexad::optim {

using autograd::Parameter;
using autograd::ParameterSet;

/// Keeps main weights and the states of its rule for this rank's owned part of every parameter. They are flat, in the
/// accumulator dtype (f32, or f64); states may be in bf16 (optim.moment_dtype). If the model has the accumulator dtype,
/// its own weights are the main weights.
class Optimizer {
 public:
  /// Uses the rule of `rules` that config.name names. With StateOffload::file the states are in the device's offload
  /// memory. Pieces of them are loaded into memory for an update, with bitwise identical results.
  Optimizer(const OptimConfig& config, ParameterSet& parameters, StateOffload offload = StateOffload::none,
            const UpdateRules& rules = {});

  /// Updates all owned weights once from their gradients times `factor` [1] (f64, the clipping factor; undefined: one).
  /// A negative factor skips the update. `step` counts from 1. A parameter without a gradient is treated as having a
  /// zero gradient.
  void step(Stream& stream, double lr, const Tensor& factor, int64_t step);

  /// One tensor that a checkpoint must hold. Its kind is "main" or a state of the rule ("moment1").
  struct State {
    Parameter* parameter;
    std::string_view kind;
    Tensor tensor;  // elements parameter->owned() of the local weights, flat; never empty
  };
  std::vector<State> states() const;
  /// Rounds the main weights into the owned weights. Call it after loading main weights.
  void main_changed(Stream& stream);

 private:
  struct Owned {
    Parameter* parameter;
    Tensor weights, main;
    std::vector<Tensor> states;
    base::GlobalIndex place{};  // for states in bf16
  };
  void update(Stream& stream, std::span<const Slice> slices, const UpdateStep& step) const;
  void update_in_pieces(Stream& stream, const Slice& whole, const UpdateStep& step) const;

  std::unique_ptr<UpdateRule> rule_;
  std::vector<std::string> state_names_;
  double weight_decay_;
  uint64_t seed_;
  bool rounds_states_;
  StateOffload offload_;
  std::vector<Owned> owned_;
};

}  // namespace hexad::optim
