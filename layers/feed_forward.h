// The feed-forward slot of a block, and the registry that lets a recipe choose what fills it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "layers/builder.h"
#include "layers/micro_batch.h"
#include "layers/model_config.h"

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

  /// A number from model.mlp_options, or `fallback` when the recipe does not give it.
  double option(const std::string& name, double fallback) const;
};

using FeedForwardFactory = std::function<std::unique_ptr<FeedForward>(const FeedForwardSpec&, const Builder&)>;

/// The layers that `model.mlp` may name. An object handed to hexad_main, not a global.
class Registry {
 public:
  /// With the layers of Hexad itself: swiglu and gelu.
  Registry();
  /// Throws std::logic_error when the name is taken.
  void add_feed_forward(const std::string& name, FeedForwardFactory factory);
  /// nullptr when there is none of that name.
  const FeedForwardFactory* feed_forward(const std::string& name) const;
  std::vector<std::string> feed_forward_names() const;

 private:
  std::map<std::string, FeedForwardFactory> feed_forward_;
};

}  // namespace hexad::layers
