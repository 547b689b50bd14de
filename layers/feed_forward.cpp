#include "layers/feed_forward.h"

#include "framework/config/words.h"
#include "layers/mlp.h"

namespace hexad::layers {

double FeedForwardSpec::option(const std::string& name, double fallback) const {
  asked->insert(name);
  for (const LayerOption& o : model.mlp_options)
    if (o.name == name) return o.value;
  return fallback;
}

void FeedForwardSpec::require_all_asked() const {
  for (size_t i = 0; i < model.mlp_options.size(); ++i) {
    const std::string& name = model.mlp_options[i].name;
    if (asked->contains(name)) continue;
    base::fail(
        base::ExitCode::usage, "model.mlp_options.", i, ".name (", config::shown(name), ") is no option of the layer ",
        model.mlp, "; ",
        asked->empty() ? "it has none" : "it has: " + config::nearest_first(name, {asked->begin(), asked->end()}));
  }
}

Registry::Registry() {
  add_feed_forward("swiglu", [](const FeedForwardSpec& s, const Builder& b) {
    return std::make_unique<SwigluMlp>(SwigluMlp::Config{s.model, s.hidden}, b);
  });
  add_feed_forward("gelu", [](const FeedForwardSpec& s, const Builder& b) {
    return std::make_unique<GeluMlp>(GeluMlp::Config{s.model, s.hidden}, b);
  });
  for (moe::IssueOrder& order : moe::built_in_orders()) add_moe_order(std::move(order));
}

void Registry::add_feed_forward(const std::string& name, FeedForwardFactory factory) {
  const bool added = feed_forward_.emplace(name, std::move(factory)).second;
  require(added, "[registry] two feed-forward layers are named '", name, "'");
}

const FeedForwardFactory* Registry::feed_forward(const std::string& name) const {
  const auto it = feed_forward_.find(name);
  return it == feed_forward_.end() ? nullptr : &it->second;
}

std::vector<std::string> Registry::feed_forward_names() const {
  std::vector<std::string> names;
  for (const auto& [name, factory] : feed_forward_) names.push_back(name);
  return names;
}

void Registry::add_moe_order(moe::IssueOrder order) {
  const std::string name = order.name;
  const bool added = moe_orders_.emplace(name, std::move(order)).second;
  require(added, "[registry] two orders of MoE layers are named '", name, "'");
}

const moe::IssueOrder* Registry::moe_order(const std::string& name) const {
  const auto it = moe_orders_.find(name);
  return it == moe_orders_.end() ? nullptr : &it->second;
}

std::vector<std::string> Registry::moe_order_names() const {
  std::vector<std::string> names;
  for (const auto& [name, order] : moe_orders_) names.push_back(name);
  return names;
}

}  // namespace hexad::layers
