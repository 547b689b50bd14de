#include "layers/feed_forward.h"

#include "layers/mlp.h"

namespace hexad::layers {

config::OptionsOwner feed_forward_options(const ModelConfig& model) {
  return {"model.mlp_options", "the layer " + model.mlp};
}

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

}  // namespace hexad::layers
