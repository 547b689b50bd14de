#include "layers/registry.h"

#include "layers/dense/mlp.h"

namespace hexad::layers {
namespace {

template <class T>
const T& existing(const T* found, std::string_view kind, const std::string& name) {
  base::require(found != nullptr, "[registry] no ", kind, " is named '", name, "'");
  return *found;
}

}  // namespace

Registry::Registry()
    : feed_forward_("feed-forward layers",
                    {{"swiglu",
                      [](const FeedForwardSpec& s, const Builder& b) {
                        return std::make_unique<SwigluMlp>(SwigluMlp::Config{s.model, s.hidden}, b);
                      }},
                     {"gelu",
                      [](const FeedForwardSpec& s, const Builder& b) {
                        return std::make_unique<GeluMlp>(GeluMlp::Config{s.model, s.hidden}, b);
                      }}}),
      routers_("routers", moe::built_in_routers()),
      moe_orders_("orders of MoE layers", {}) {
  for (moe::IssueOrder& order : moe::built_in_orders()) add_moe_order(std::move(order));
}

void Registry::add_feed_forward(const std::string& name, FeedForwardFactory factory) {
  feed_forward_.add(name, std::move(factory));
}

void Registry::add_router(const std::string& name, moe::RouterFactory factory) {
  routers_.add(name, std::move(factory));
}

void Registry::add_moe_order(moe::IssueOrder order) {
  const std::string name = order.name;
  moe_orders_.add(name, std::move(order));
}

const FeedForwardFactory& Registry::feed_forward_of(const ModelConfig& c) const {
  return existing(feed_forward(c.mlp), "feed-forward layer", c.mlp);
}

const moe::RouterFactory& Registry::router_of(const ModelConfig& c) const {
  return existing(router(c.moe.router), "router", c.moe.router);
}

const moe::IssueOrder& Registry::moe_order_of(const moe::MoeSchedule& s) const {
  return existing(moe_order(s.order), "order of MoE layers", s.order);
}

}  // namespace hexad::layers
