// Rules that compute new weights from gradients. A recipe chooses a rule by name (optim.name).
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "framework/autograd/parameter.h"
#include "framework/base/global_index.h"
#include "framework/base/named.h"
#include "framework/tensor/tensor.h"
#include "optim/optim_config.h"
#include "parallel/dp/whole_matrices.h"

namespace hexad::optim {

using autograd::Parameter;
using device::Stream;
using tensor::Tensor;

/// Part of a parameter that one update changes on this rank: flat tensors of the same length. `main` and `states` are
/// in the accumulator dtype, `gradient` in this dtype or in bf16. The states are in bf16 if optim.moment_dtype is bf16;
/// `place` and `rounding_key` then determine their rounding (kernels::AdamwSlice). `main` contains the rests of f32
/// main weights if optim.main_weights is rest and the weights are bf16 (optim/rests.h).
struct Slice {
  Tensor main;                   // main weights, which the rule updates
  std::vector<Tensor> states{};  // one tensor for each name in UpdateRule::states_of(), in that order
  Tensor weights;  // weights of the model, to which the rule writes the rounded `main`; may be `main` itself
  Tensor gradient;
  double weight_decay = 0;  // 0 for parameters without decay, such as norms and biases
  base::GlobalIndex place{};
  uint32_t rounding_key = 0;
};

struct UpdateStep {
  double lr = 0;
  int64_t step = 1;  // number of the update; the first is 1
  Tensor factor{};   // [1] f64: factor of the gradients (clipping); negative: nothing is written; undefined: 1
};

/// Settings of one call of MatrixRule::update_matrices().
struct MatrixStep {
  double lr = 0;
  double factor = 1;  // factor of the gradients (clipping); never negative
};

/// Rule that computes new weights. update() is elementwise: the new value of a weight does not depend on the values,
/// gradients and states of other weights. Therefore updates are bitwise identical for whole tensors, for the shards of
/// ZeRO, and for pieces of offloaded states. A rule that needs whole matrices is a MatrixRule.
class UpdateRule {
 public:
  virtual ~UpdateRule() = default;
  /// Returns the names of the values that are stored for each element in addition to the main weight. The values are
  /// initially zero. Checkpoints use these names. A name consists of letters, digits and underscores, and must not be
  /// "main", "parameter" or "state".
  virtual std::vector<std::string> states() const { return {}; }
  /// Returns the subset of states() that is stored for the elements of a parameter, in the order of Slice::states.
  virtual std::vector<std::string> states_of(const Parameter::Spec&) const { return states(); }
  /// Returns the minimum number of states that a parameter may have.
  virtual int64_t fewest_states() const { return std::ssize(states()); }
  /// Appends the update to `stream`. The stream of a device accepts only kernels. elementwise() (elementwise.h) works
  /// on every device.
  virtual void update(Stream& stream, std::span<const Slice> slices, const UpdateStep& step) const = 0;
  /// True if update() only launches kernels of the kernel table and never accesses a tensor itself. optim.overlap needs
  /// such a rule: update() is then called several times a step, with some of the slices each time. The update of such a
  /// rule can be recorded on a device without memory. For other rules, Optimizer records an estimate on such a device.
  /// The estimated update reads and writes main weights and states once, reads the gradient, and writes the weights.
  virtual bool only_launches_kernels() const { return false; }
};

/// Rule that updates some parameters as whole matrices, and all other parameters by update(). Optimizer recognises it
/// by its type.
class MatrixRule : public UpdateRule {
 public:
  /// True if the rule updates the parameter by update_matrices() instead of update(). The result must be equal on all
  /// ranks. It must be false for parameters with fewer than two dimensions.
  virtual bool takes_matrices(const Parameter::Spec& spec) const = 0;
  /// Appends the update of the matrices of one parameter to `stream`. `slice` has the elements that this rank owns; its
  /// tensors are undefined if this rank owns no elements. Collective: all ranks that share the parameter must call
  /// `matrices.gather()` the same number of times. Launches only kernels and collectives.
  virtual void update_matrices(Stream& stream, const Slice& slice, const MatrixStep& step,
                               const dp::WholeMatrices& matrices) const = 0;
};

struct RuleSpec;
using RuleFactory = std::function<std::unique_ptr<UpdateRule>(const RuleSpec&)>;

/// Declaration of an optimizer that a recipe may choose: the options that its rule reads, and a function that makes the
/// rule. A recipe that sets any other option is rejected before a rule is made.
struct RuleDeclaration {
  config::OptionNames options{};    // names of the options in optim.options
  bool reads_moment_dtype = false;  // true if update() accepts states in bf16; elementwise() does not
  /// Name of a state that is never negative. The signs of this state store the marks of main weights that are stored as
  /// rests (framework/base/main_weight.h). Empty: the rule cannot update rests and needs f32 main weights.
  std::string marked_state{};
  RuleFactory make;
};

/// Returns the problem of optim.moment_dtype with the optimizer named by `config`; empty if there is none.
std::string moment_dtype_problem(const OptimConfig& config, const RuleDeclaration& declared);
/// Returns a key with the prefix optim.muon_ whose value is not the default, if the optimizer is not muon. Returns an
/// empty text if there is no such key.
std::string misplaced_muon_key(const OptimConfig& config);
/// Returns the problem of optim.main_weights with the optimizer named by `config`; empty if there is none.
std::string main_weights_problem(const OptimConfig& config, const RuleDeclaration& declared);
/// Returns the problem of optim.overlap with the rule that `config` names; empty if there is none.
std::string overlap_problem(const OptimConfig& config, const UpdateRule& rule);

/// Returns the recipe key that holds the options of the optimizer named by `config`, and the optimizer's name for error
/// messages.
config::OptionsOwner rule_options(const OptimConfig& config);

/// Arguments of the function that makes a rule.
struct RuleSpec {
  const OptimConfig& config;
  const RuleDeclaration& declared;

  /// Returns the option `name` of optim.options, or `fallback` if it is not set. Throws std::logic_error if the rule
  /// has not declared the option, and Error(usage) if its value is not a finite number.
  double option(const std::string& name, double fallback) const { return options.number(name, fallback); }

  config::Options options{rule_options(config), declared.options, config.options};
};

/// Rules that a recipe may choose by optim.name: adamw (Loshchilov & Hutter 2019), sgd (plain), muon (optim/muon.h),
/// and the rules that a program adds.
class UpdateRules : public base::Named<RuleDeclaration> {
 public:
  UpdateRules();
  /// Makes the rule that a recipe chooses. Throws Error(usage) if the name is unknown, an option is undeclared, a
  /// state's name is invalid or repeated, or marked_state is not the name of a state. Also throws Error(usage) if the
  /// value of optim.moment_dtype, optim.main_weights or optim.overlap is unsupported.
  std::unique_ptr<UpdateRule> make(const OptimConfig& config) const;
};

}  // namespace hexad::optim
