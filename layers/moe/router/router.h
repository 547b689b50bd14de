// Routers, which choose the experts of a token; chosen by name in a recipe (model.moe.router).
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

namespace hexad::moe {

using autograd::Parameter;
using autograd::Tape;
using autograd::Value;
using layers::Builder;
using layers::ForwardContext;
using layers::ModelConfig;
using tensor::Tensor;

class Router;
struct RouterSpec;
using RouterFactory = std::function<std::unique_ptr<Router>(const RouterSpec&, const Builder&)>;

/// A router that a recipe may choose: the settings that it reads, and how it is made. A recipe with other settings is
/// refused before any router is made.
struct RouterDeclaration {
  config::OptionNames options{};  // in model.moe.router_options
  /// Reads RouterSpec::rule(); else model.moe.score, normalize, scale, groups and top_groups must keep their defaults.
  bool uses_score_rule = false;
  /// RouterInput::bias takes part in the selection; else model.moe.bias_rate must be 0.
  bool selects_by_bias = false;
  RouterFactory make;
};

/// Key and owner of the options of the router that `model` names.
config::OptionsOwner router_options(const ModelConfig& model);
/// Keys of model.moe that only a router with the score rule reads, and that differ from their defaults in `model`.
std::vector<std::string_view> score_rule_keys(const ModelConfig& model);

/// Arguments for making a router.
struct RouterSpec {
  const ModelConfig& model;
  int64_t layer;  // number of the block
  const RouterDeclaration& declared;

  /// A number from model.moe.router_options, or `fallback`. Throws std::logic_error for an option that is not declared.
  double option(const std::string& name, double fallback) const { return options.number(name, fallback); }
  /// Returns the recipe's rule for turning scores into weights (model.moe.score, top_k, normalize, scale, groups,
  /// top_groups). Throws std::logic_error unless the router declares uses_score_rule.
  kernels::RouterRule rule() const;

  config::Options options{router_options(model), declared.options, model.moe.router_options};
};

/// Rows to be routed: row i of x is row first + i of the micro-batch on this rank. Of tensor-parallel ranks that route
/// the same rows each adds the weight gradients of its own ones, [own_begin, own_end); see Gate.
struct RouterInput {
  const Value& x;  // [T, hidden]
  const ForwardContext& pass;
  int64_t first, own_begin, own_end;
  Tensor bias{};    // [E] acc: takes part in the selection only; undefined unless model.moe.bias_rate is above 0
  Tensor forced{};  // i32 [T, K]: replaces the choice (an experiment, or a comparison); undefined: nothing does

  int64_t rows() const { return x.data.dim(0); }
  /// i32 [T]: the tokens' ids in the vocabulary.
  Tensor token_ids() const { return pass.batch.ids.slice(0, first, first + rows()); }
};

/// A router's choice. The balancing loss is taken from scores, the z-loss from logits. A router that has none leaves
/// them without data, and recipes that want such a loss are refused.
struct RouterOutput {
  Value logits;                     // [T, E] acc
  autograd::RouterChoice choice{};  // scores [T, E] acc, weights [T, K] acc, ids [T, K] i32: experts, all different
};

/// Chooses top_k experts of every token. A choice must depend on the token alone (its activations, its id, its global
/// index), not on what else is in the micro-batch or on who holds it: then it is the same under every layout. What is
/// over capacity, padding and losses are the layer's business. Its parameters are made by Gate or with
/// Builder::partial().
class Router {
 public:
  virtual ~Router() = default;
  virtual RouterOutput operator()(Tape& t, const RouterInput& in) const = 0;
};

/// A linear map without bias for routers: [T, in] to [T, out], f32 (f64 in an f64 run). The gradient of x is that of
/// all rows, the gradient of the weight that of rows [own_begin, own_end) alone: where several ranks route the same
/// rows, each of them adds those of its own share, so that every token counts once.
class Gate {
 public:
  /// "weight" [out, in], drawn with model.init_std.
  Gate(const RouterSpec& s, int64_t out, int64_t in, const Builder& b);
  /// Returns x[T, in] weight^T. x has a row for each row of `in`.
  Value operator()(Tape& t, const Value& x, const RouterInput& in) const;

 private:
  Parameter* weight_;
};

/// Built-in routers: top_k, the experts with the highest scores of a linear gate; softmax or sigmoid, groups,
/// normalising and scale as in model.moe (Shazeer 2017, Switch, Mixtral, DeepSeek-V3).
std::map<std::string, RouterDeclaration> built_in_routers();

}  // namespace hexad::moe
