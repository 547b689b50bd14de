#include "layers/registry.h"

#include "framework/config/words.h"
#include "layers/dense/mlp.h"

namespace hexad::layers {
namespace {

template <class T>
const T& existing(const T* found, std::string_view kind, const std::string& name, std::vector<std::string> names) {
  if (!found)
    base::fail_invariant(base::cat("[registry] no ", kind, " is registered as '", name,
                                   "'; expected one of: ", config::nearest_first(name, std::move(names))));
  return *found;
}

}  // namespace

Registry::Registry()
    : feed_forward_("feed-forward layers",
                    {{"swiglu",
                      {.make =
                           [](const FeedForwardSpec& s, const Builder& b) {
                             return std::make_unique<SwigluMlp>(SwigluMlp::Config{s.model, s.hidden}, b);
                           }}},
                     {"gelu",
                      {.make =
                           [](const FeedForwardSpec& s, const Builder& b) {
                             return std::make_unique<GeluMlp>(GeluMlp::Config{s.model, s.hidden}, b);
                           }}}}),
      routers_("routers", moe::built_in_routers()),
      moe_orders_("orders of MoE layers", {}) {
  for (moe::IssueOrder& order : moe::built_in_orders()) add_moe_order(std::move(order));
}

void Registry::add_feed_forward(const std::string& name, FeedForwardDeclaration layer) {
  feed_forward_.add(name, std::move(layer));
}

void Registry::add_router(const std::string& name, moe::RouterDeclaration router) {
  routers_.add(name, std::move(router));
}

void Registry::add_moe_order(moe::IssueOrder order) {
  const std::string name = order.name;
  moe_orders_.add(name, std::move(order));
}

const FeedForwardDeclaration& Registry::feed_forward_of(const ModelConfig& c) const {
  return existing(feed_forward(c.mlp), "feed-forward layer", c.mlp, feed_forward_names());
}

const moe::RouterDeclaration& Registry::router_of(const ModelConfig& c) const {
  return existing(router(c.moe.router), "router", c.moe.router, router_names());
}

const moe::IssueOrder& Registry::moe_order_of(const moe::MoeSchedule& s) const {
  return existing(moe_order(s.order), "order of MoE layers", s.order, moe_order_names());
}

}  // namespace hexad::layers
