// The feed-forward slot of a block, and the registry that lets a recipe choose by name what fills it, what routes
// tokens to experts, and in which order MoE layers work.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "framework/base/named.h"
#include "framework/config/options.h"
#include "layers/moe/router/router.h"

namespace hexad::layers {

using autograd::Tape;
using autograd::Value;

/// Maps x[T, hidden] to the same shape. `pass` tells what is known of the micro-batch.
class FeedForward {
 public:
  virtual ~FeedForward() = default;
  virtual Value operator()(Tape& t, const Value& x, const Pass& pass) const = 0;
};

struct FeedForwardSpec;
using FeedForwardFactory = std::function<std::unique_ptr<FeedForward>(const FeedForwardSpec&, const Builder&)>;

/// A layer that a recipe may choose: the options that it reads, and how it is made. A recipe with other options is
/// refused before any layer is made.
struct FeedForwardDeclaration {
  config::OptionNames options{};  // in model.mlp_options
  FeedForwardFactory make;
};

/// Key and owner of the options of the layer that `model` names.
config::OptionsOwner feed_forward_options(const ModelConfig& model);

/// Arguments for making a registered layer.
struct FeedForwardSpec {
  const ModelConfig& model;
  int64_t layer;   // number of the block
  int64_t hidden;  // width of the layer's middle, from model.mlp_hidden
  const FeedForwardDeclaration& declared;

  /// A number from model.mlp_options, or `fallback`. Throws std::logic_error for an option that is not declared.
  double option(const std::string& name, double fallback) const { return options.number(name, fallback); }

  config::Options options{feed_forward_options(model), declared.options, model.mlp_options};
};

/// Values that `model.mlp`, `model.moe.router` and `schedule.moe.order` accept. An object handed to hexad_main, not a
/// global.
class Registry {
 public:
  /// Holds what is built in: the layers swiglu and gelu, moe::built_in_routers() and moe::built_in_orders().
  Registry();

  /// These throw std::logic_error when the name is taken.
  void add_feed_forward(const std::string& name, FeedForwardDeclaration layer);
  void add_router(const std::string& name, moe::RouterDeclaration router);
  void add_moe_order(moe::IssueOrder order);

  /// nullptr when there is none of that name.
  const FeedForwardDeclaration* feed_forward(const std::string& name) const { return feed_forward_.find(name); }
  const moe::RouterDeclaration* router(const std::string& name) const { return routers_.find(name); }
  const moe::IssueOrder* moe_order(const std::string& name) const { return moe_orders_.find(name); }

  std::vector<std::string> feed_forward_names() const { return feed_forward_.names(); }
  std::vector<std::string> router_names() const { return routers_.names(); }
  std::vector<std::string> moe_order_names() const { return moe_orders_.names(); }

 private:
  base::Named<FeedForwardDeclaration> feed_forward_;
  base::Named<moe::RouterDeclaration> routers_;
  base::Named<moe::IssueOrder> moe_orders_;
};

}  // namespace hexad::layers
