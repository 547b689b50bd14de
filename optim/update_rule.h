// Rules that compute new weights from gradients, by their name in the recipe (optim.name).
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "framework/base/global_index.h"
#include "framework/base/named.h"
#include "framework/tensor/tensor.h"
#include "optim/optim_config.h"

namespace hexad::optim {

using device::Stream;
using tensor::Tensor;

/// Part of one parameter that one update covers on this rank: flat tensors of equal length. main and states are in the
/// accumulator dtype (f32, or f64). The gradient is in that dtype or in bf16. With optim.moment_dtype: bf16 states are
/// in bf16, and `place` and `rounding_key` determine how they are rounded (kernels::AdamwSlice).
struct Slice {
  Tensor main;                   // the optimizer's weights, which the rule updates
  std::vector<Tensor> states{};  // states of UpdateRule::states(), in that order
  Tensor weights;  // the model's weights, to which the rule writes main, rounded to their dtype; may be main itself
  Tensor gradient;
  double weight_decay = 0;  // 0 for norms and biases
  base::GlobalIndex place{};
  uint32_t rounding_key = 0;
};

struct UpdateStep {
  double lr = 0;
  int64_t step = 1;  // the first step is 1
  Tensor factor{};   // [1] f64, multiplied into gradients (clipping); negative: nothing is written; undefined: one
};

/// A rule that works element by element: a weight's new value depends only on its own gradient, states and value.
/// Therefore updates are bitwise identical for whole tensors, for the shards of ZeRO, and for pieces of offloaded
/// states.
class UpdateRule {
 public:
  virtual ~UpdateRule() = default;
  /// Returns the names of the numbers kept per element in addition to the main weights, initially zero. Checkpoints use
  /// these names. A name has letters, digits and underscores, and is not main, parameter or state.
  virtual std::vector<std::string> states() const { return {}; }
  /// Appends the update to `stream`. A device's stream takes only kernels; elementwise() (elementwise.h) works on every
  /// device.
  virtual void update(Stream& stream, std::span<const Slice> slices, const UpdateStep& step) const = 0;
};

struct RuleSpec;
using RuleFactory = std::function<std::unique_ptr<UpdateRule>(const RuleSpec&)>;

/// An optimizer that a recipe may choose: the options that its rule reads, and a function that makes the rule. A recipe
/// with other options is rejected before any rule is made.
struct RuleDeclaration {
  config::OptionNames options{};    // in optim.options
  bool reads_moment_dtype = false;  // the rule can keep its states in bf16
  RuleFactory make;
};

/// Returns the problem with optim.moment_dtype for the rule that `config` names; empty if there is none.
std::string moment_dtype_problem(const OptimConfig& config, const RuleDeclaration& declared);

/// Returns the recipe key and the owner of the options of the optimizer that `config` names.
config::OptionsOwner rule_options(const OptimConfig& config);

/// Arguments of the function that makes a rule.
struct RuleSpec {
  const OptimConfig& config;
  const RuleDeclaration& declared;

  /// Returns a number from optim.options, or `fallback`. Throws std::logic_error for an option that is not declared.
  double option(const std::string& name, double fallback) const { return options.number(name, fallback); }

  config::Options options{rule_options(config), declared.options, config.options};
};

/// Rules that optim.name may choose: adamw (Loshchilov & Hutter 2019), sgd (plain), and rules that a program adds.
class UpdateRules : public base::Named<RuleDeclaration> {
 public:
  UpdateRules();
  /// Makes the rule of a recipe. Throws Error(usage) for an unknown name, an undeclared option, a dtype of moments that
  /// the rule does not read, or invalid names of states.
  std::unique_ptr<UpdateRule> make(const OptimConfig& config) const;
};

}  // namespace hexad::optim
