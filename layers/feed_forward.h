// The feed-forward slot of a block, and the registry that lets a recipe choose by name what fills it and in which order
// MoE layers work.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "layers/builder.h"
#include "layers/micro_batch.h"
#include "layers/model_config.h"
#include "layers/moe/schedule/issue_order.h"

namespace hexad::layers {

/// Maps x[T, hidden] to the same shape. `pass` tells what is known of the micro-batch.
class FeedForward {
 public:
  virtual ~FeedForward() = default;
  virtual Value operator()(Tape& t, const Value& x, const Pass& pass) const = 0;
};

/// What a registered layer is made from.
struct FeedForwardSpec {
  const ModelConfig& model;
  int64_t layer;   // number of the block
  int64_t hidden;  // width of the layer's middle, from model.mlp_hidden

  /// A number from model.mlp_options, or `fallback` when the recipe does not give it. Asked for while the layer is
  /// made: what it never asks for is a slip of the pen in the recipe.
  double option(const std::string& name, double fallback) const;
  /// Throws Error(usage) for the first of model.mlp_options that nobody has asked for.
  void require_all_asked() const;

  std::shared_ptr<std::set<std::string>> asked = std::make_shared<std::set<std::string>>();  // by copies of this, too
};

using FeedForwardFactory = std::function<std::unique_ptr<FeedForward>(const FeedForwardSpec&, const Builder&)>;

/// The layers that `model.mlp` and the orders that `schedule.moe.order` may name. An object handed to hexad_main, not a
/// global.
class Registry {
 public:
  /// With what Hexad has itself: the layers swiglu and gelu, and moe::built_in_orders().
  Registry();
  /// Throws std::logic_error when the name is taken.
  void add_feed_forward(const std::string& name, FeedForwardFactory factory);
  /// nullptr when there is none of that name.
  const FeedForwardFactory* feed_forward(const std::string& name) const;
  std::vector<std::string> feed_forward_names() const;

  /// Throws std::logic_error when the name is taken.
  void add_moe_order(moe::IssueOrder order);
  /// nullptr when there is none of that name.
  const moe::IssueOrder* moe_order(const std::string& name) const;
  std::vector<std::string> moe_order_names() const;

 private:
  std::map<std::string, FeedForwardFactory> feed_forward_;
  std::map<std::string, moe::IssueOrder> moe_orders_;
};

}  // namespace hexad::layers
