#include "layers/feed_forward.h"

#include "layers/mlp.h"

namespace hexad::layers {

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

}  // namespace hexad::layers
