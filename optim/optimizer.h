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

/// Keeps main weights and the states of its rule, for what this rank owns of every parameter, flat, in the accumulator
/// dtype (f32, or f64). Where the model's dtype is that already, the main weights are the model's own.
class Optimizer {
 public:
  /// With StateOffload::file the states lie in the device's offload memory and come into memory in pieces to be
  /// updated, with the same bits. The rule is the one of `rules` that config.name names.
  Optimizer(const OptimConfig& config, ParameterSet& parameters, StateOffload offload = StateOffload::none,
            const UpdateRules& rules = {});

  /// One update of all owned weights from their gradients times `factor` [1] (f64, the clipping factor; undefined:
  /// one), or none where that is negative. `step` counts from 1. A parameter without a gradient is treated as having a
  /// zero one.
  void step(Stream& stream, double lr, const Tensor& factor, int64_t step);

  /// One tensor that a checkpoint must hold. Kinds: "main", and the rule's states ("moment1").
  struct State {
    Parameter* parameter;
    std::string_view kind;
    Tensor tensor;  // elements parameter->owned() of the local weights, flat; there are some
  };
  std::vector<State> states() const;
  /// After main weights were changed from outside (loaded): rounds them into the owned weights.
  void main_changed(Stream& stream);

 private:
  struct Owned {
    Parameter* parameter;
    Tensor weights, main;
    std::vector<Tensor> states;
  };
  void update(Stream& stream, std::span<const Slice> slices, const UpdateStep& step) const;
  void update_in_pieces(Stream& stream, const Slice& whole, const UpdateStep& step) const;

  std::unique_ptr<UpdateRule> rule_;
  std::vector<std::string> state_names_;
  double weight_decay_;
  StateOffload offload_;
  std::vector<Owned> owned_;
};

}  // namespace hexad::optim
