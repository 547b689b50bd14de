#include "layers/feed_forward.h"

#include "layers/mlp.h"

namespace hexad::layers {

double FeedForwardSpec::option(const std::string& name, double fallback) const {
  for (const LayerOption& o : model.mlp_options)
    if (o.name == name) return o.value;
  return fallback;
}

Registry::Registry() {
  add_feed_forward("swiglu", [](const FeedForwardSpec& s, const Builder& b) {
    return std::make_unique<SwigluMlp>(SwigluMlp::Config{s.model, s.hidden}, b);
  });
  add_feed_forward("gelu", [](const FeedForwardSpec& s, const Builder& b) {
    return std::make_unique<GeluMlp>(GeluMlp::Config{s.model, s.hidden}, b);
  });
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

}  // namespace hexad::layers
