// Optimizer, which updates weights from their gradients.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/autograd/parameter.h"
#include "optim/rests.h"
#include "optim/update_rule.h"

namespace hexad::optim {

using autograd::Parameter;
using autograd::ParameterSet;

/// Stores the main weights and the states of the update rule, for the elements of each parameter that this rank owns.
/// They are flat tensors in the accumulator dtype. States may instead be bf16 (optim.moment_dtype), and main weights
/// may be stored as rests (optim.main_weights). The model's weights serve as the main weights if they have the
/// accumulator dtype. Frozen parameters have neither main weights nor states.
class Optimizer {
 public:
  /// Uses the rule in `rules` whose name is config.name. With StateOffload::file, the states and separate main weights
  /// are in the device's offload memory. An update loads them piece by piece, or one parameter at a time if the rule
  /// takes the parameter's matrices. The results are bitwise identical to results without offload. A rule that takes
  /// matrices needs `mesh` if parameters are divided among ranks. `mesh` must outlive the optimizer. Throws like
  /// UpdateRules::make().
  Optimizer(const OptimConfig& config, ParameterSet& parameters, StateOffload offload = StateOffload::none,
            const UpdateRules& rules = {}, const mesh::Mesh* mesh = nullptr);

  /// Updates all owned trainable weights once. Multiplies their gradients by `factor`, a tensor [1] in f64, for
  /// clipping. An undefined factor counts as 1. Skips the update if the factor is negative. The first `step` is 1. A
  /// parameter without a gradient is updated with a zero gradient. Collective if the rule takes matrices; the host then
  /// reads the factor.
  void step(Stream& stream, double lr, const Tensor& factor, int64_t step);
  /// Updates the owned trainable weights of some parameters. Calling update() for all parameters, in any order, is
  /// equivalent to step(), except for parameters whose matrices the rule takes. Such parameters are not updated. Not
  /// collective.
  void update(Stream& stream, std::span<Parameter* const> parameters, const UpdateStep& step) const;

  /// A tensor that a checkpoint must contain. `kind` is "main" or the name of a state of the rule, such as "moment1".
  struct State {
    Parameter* parameter;
    std::string_view kind;
    Tensor tensor;  // values of the elements parameter->owned(), flat and as stored; never empty
    Rests rests{};  // defined for main weights stored as rests, and for the state that stores their marks

    /// Returns the dtype of the values.
    base::Dtype dtype() const;
    /// Returns elements [begin, end) in the form for checkpoints: main weights instead of rests, and states without
    /// marks. The result shares the memory of `tensor` or is a copy in host memory.
    Tensor values(int64_t begin, int64_t end) const;
    Tensor values() const { return values(0, tensor.numel()); }
    /// Calls read(target), which writes new values to `target`. Elements that `read` does not write keep their values.
    void load(const std::function<void(const Tensor& target)>& read) const;
  };
  std::vector<State> states() const;
  /// Writes the rounded main weights to the owned weights of the model, after main weights have been loaded.
  /// State::load() has already written the weights whose main weights are stored as rests.
  void main_changed(Stream& stream);

 private:
  struct Owned {
    Parameter* parameter;
    Tensor weights, main;
    std::vector<std::string> names;  // names of the states
    std::vector<Tensor> states;
    base::GlobalIndex place{};  // global indices of the elements, used to round bf16 states
    bool rests = false;         // true if `main` contains rests
    bool matrices = false;      // true if the rule updates whole matrices of this parameter
  };
  // Parameter whose whole matrices the rule updates. This rank takes part in the update even if it owns no element.
  struct Matrices {
    dp::WholeMatrices whole;
    std::optional<size_t> owned;  // index in owned_
  };
  Slice slice_of(Stream& stream, const Owned& owned, int64_t step) const;
  void update(Stream& stream, std::span<const Owned* const> owned, const UpdateStep& step) const;
  void call_rule(Stream& stream, std::span<const Slice> slices, const UpdateStep& step) const;
  void update_in_pieces(Stream& stream, const Slice& whole, const UpdateStep& step) const;
  void update_matrices(Stream& stream, const UpdateStep& step) const;

  std::unique_ptr<UpdateRule> rule_;
  const MatrixRule* matrix_rule_;  // `rule_` if it is a MatrixRule; otherwise null
  double weight_decay_;
  uint64_t seed_;
  bool rounds_states_;
  size_t marked_state_ = 0;  // index of the state that stores the marks of rests
  StateOffload offload_;
  std::vector<Owned> owned_;
  std::vector<Matrices> matrices_;
};

}  // namespace hexad::optim
