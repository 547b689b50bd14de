// Registry of the parts of a model that a recipe chooses by name.
#pragma once

#include <string>
#include <vector>

#include "framework/base/named.h"
#include "layers/dense/feed_forward.h"
#include "layers/moe/router/router.h"
#include "layers/moe/schedule/issue_order.h"
#include "layers/moe/schedule/moe_schedule.h"

namespace hexad::layers {

/// Registry of the values that `model.mlp`, `model.moe.router` and `schedule.moe.order` accept. hexad_main receives the
/// registry in its argument `extensions`; there is no global registry.
class Registry {
 public:
  /// Makes a registry of the built-in layers swiglu and gelu, moe::built_in_routers() and moe::built_in_orders().
  Registry();

  /// The next three functions add a part. They throw std::logic_error if its name is already registered.
  void add_feed_forward(const std::string& name, FeedForwardDeclaration layer);
  void add_router(const std::string& name, moe::RouterDeclaration router);
  void add_moe_order(moe::IssueOrder order);

  /// The next three functions return the part with this name; nullptr if the name is unknown.
  const FeedForwardDeclaration* feed_forward(const std::string& name) const { return feed_forward_.find(name); }
  const moe::RouterDeclaration* router(const std::string& name) const { return routers_.find(name); }
  const moe::IssueOrder* moe_order(const std::string& name) const { return moe_orders_.find(name); }

  /// The next three functions return the part that a valid recipe names. They throw std::logic_error if the name is
  /// unknown.
  const FeedForwardDeclaration& feed_forward_of(const ModelConfig& c) const;
  const moe::RouterDeclaration& router_of(const ModelConfig& c) const;
  const moe::IssueOrder& moe_order_of(const moe::MoeSchedule& s) const;

  std::vector<std::string> feed_forward_names() const { return feed_forward_.names(); }
  std::vector<std::string> router_names() const { return routers_.names(); }
  std::vector<std::string> moe_order_names() const { return moe_orders_.names(); }

 private:
  base::Named<FeedForwardDeclaration> feed_forward_;
  base::Named<moe::RouterDeclaration> routers_;
  base::Named<moe::IssueOrder> moe_orders_;
};

}  // namespace hexad::layers
