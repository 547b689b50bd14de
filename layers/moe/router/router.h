// Routers, which choose the experts of each token. A recipe chooses a router by name (model.moe.router).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "framework/config/options.h"
#include "layers/base/builder.h"
#include "layers/base/micro_batch.h"
#include "layers/base/model_config.h"
#include "layers/base/moe_names.h"

namespace hexad::moe {

class Router;
struct RouterSpec;
using RouterFactory = std::function<std::unique_ptr<Router>(const RouterSpec&, const Builder&)>;

/// Declaration of a router that a recipe may choose: the settings that it reads, and its factory. A recipe must not set
/// options, keys of the score rule or a selection bias that the router does not read. This is checked before the router
/// is made.
struct RouterDeclaration {
  config::OptionNames options{};  // names of the options in model.moe.router_options
  /// True if the router reads RouterSpec::rule() and model.moe.router_bias. If false, model.moe.score, router_bias,
  /// normalize, normalize_floor, scale, groups, top_groups and group_score must keep their defaults.
  bool uses_score_rule = false;
  /// True if RouterInput::bias takes part in the selection. If false, the model must have no selection bias.
  bool selects_by_bias = false;
  RouterFactory make;
};

/// Returns the recipe key that holds the options of the router named by `model`, and the router's name for error
/// messages.
config::OptionsOwner router_options(const ModelConfig& model);
/// Returns the keys of model.moe that only the score rule reads and that differ from their defaults in `model`.
std::vector<std::string_view> score_rule_keys(const ModelConfig& model);

/// Arguments of the function that makes a router.
struct RouterSpec {
  const ModelConfig& model;
  int64_t layer;  // index of the block in the model
  const RouterDeclaration& declared;

  /// Returns option `name` of model.moe.router_options, or `fallback` if the recipe does not set it. Throws
  /// std::logic_error if the option is not declared, and Error(usage) if its value is not a finite number.
  double option(const std::string& name, double fallback) const { return options.number(name, fallback); }
  /// Returns the recipe's rule for turning scores into weights (model.moe.score, top_k, normalize, normalize_floor,
  /// scale, groups, top_groups, group_score). Throws std::logic_error if the router does not declare uses_score_rule.
  kernels::RouterRule rule() const;

  config::Options options{router_options(model), declared.options, model.moe.router_options};
};

/// Rows to route. Row i of x is row first + i of the micro-batch on this rank. Each rank computes weight gradients only
/// for its own rows [own_begin, own_end) if several tensor-parallel ranks route the same rows; see Gate. "acc" is the
/// accumulator dtype.
struct RouterInput {
  const Value& x;  // [T, hidden]
  const ForwardContext& context;
  int64_t first, own_begin, own_end;
  Tensor bias{};    // [E] acc: used only to select experts; undefined if not MoeConfig::has_selection_bias()
  Tensor forced{};  // i32 [T, K]: experts to use instead of the router's choice; undefined: the router chooses

  int64_t rows() const { return x.data.dim(0); }
  /// Returns the tokens' ids in the vocabulary: i32 [T].
  Tensor token_ids() const { return context.batch.ids.slice(0, first, first + rows()); }
};

/// Result of a router. The balancing loss is computed from scores, the z-loss from logits. A router without scores or
/// logits leaves the data of that member undefined. The MoE layer then throws Error(usage) if a loss of the recipe
/// needs the member.
struct RouterOutput {
  Value logits;  // [T, E] acc
  // Scores [T, E] acc, weights [T, K] acc, and ids [T, K] i32. The ids of a token are distinct. Slots may be empty,
  // with id -1 and weight 0, if experts choose tokens (MoeConfig::experts_choose).
  autograd::RouterChoice choice{};
};

/// Chooses top_k experts for every token. The choice must depend only on the token: its activations, its id and its
/// global index. It must not depend on the rest of the micro-batch or on the rank. The choice is then the same under
/// every layout. The MoE layer handles capacity, padding and losses. The router makes its parameters through Gate, or
/// with the placement Builder::partial().
///
/// The router expert_choice is an exception. A token may get fewer experts from this router. The choice depends on the
/// scores of all tokens of a sequence or micro-batch. The router gathers these scores from the ranks. The MoE layer
/// then drops nothing, because the choice respects the capacity.
class Router {
 public:
  virtual ~Router() = default;
  virtual RouterOutput operator()(Tape& t, const RouterInput& in) const = 0;
};

/// Linear map from [T, in] to [T, out], for routers and the gate of shared experts. Computes in f32 (f64 in an f64
/// run). The gradient of x covers all rows. The gradients of weight and bias cover only rows [own_begin, own_end). Each
/// rank owns a part of the rows if several ranks route the same rows. Every token then counts once in the gradients of
/// weight and bias.
class Gate {
 public:
  /// Makes the parameter "weight" [out, in] with standard deviation model.init_std, and the parameter "logit_bias"
  /// [out] of zeros if `bias` is true. The name "bias" is not used, because it is the name of the selection bias, a
  /// state.
  Gate(const RouterSpec& s, int64_t out, int64_t in, const Builder& b, bool bias = false);
  /// Returns x weight^T + logit_bias, [T, out]. Row i of x belongs to row i of the router input `in`.
  Value operator()(Tape& t, const Value& x, const RouterInput& in) const;

 private:
  Parameter *weight_, *bias_;  // bias_: null if the gate has no bias
};

/// Returns the built-in routers.
///   - top_k: chooses the experts with the highest scores of a linear gate. The keys of model.moe set the score
///     function, groups, normalisation and scale (Shazeer 2017, Switch, Mixtral, DeepSeek-V3).
///   - sparse_mixer: chooses the experts with the highest logits, and computes the weight of each expert from logits
///     near its own (Phi-3.5-MoE). The method's sampling and its estimated gradient are not implemented.
///   - expert_choice: lets each expert choose the tokens with the highest scores (Zhou et al. 2022; choose_tokens()).
std::map<std::string, RouterDeclaration> built_in_routers();

}  // namespace hexad::moe
