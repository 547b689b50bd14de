// The dense feed-forward layer of a block, by the name that a recipe gives (model.mlp).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "framework/config/options.h"
#include "layers/base/builder.h"
#include "layers/base/micro_batch.h"
#include "layers/base/model_config.h"

namespace hexad::layers {

using autograd::Tape;
using autograd::Value;

/// Maps x[T, hidden] to the same shape. `pass` is the context of the micro-batch.
class FeedForward {
 public:
  virtual ~FeedForward() = default;
  virtual Value operator()(Tape& t, const Value& x, const Pass& pass) const = 0;
};

/// Arguments for making a registered layer.
struct FeedForwardSpec {
  const ModelConfig& model;
  int64_t layer;   // number of the block
  int64_t hidden;  // width of the layer's middle, from model.mlp_hidden

  /// Returns a number from model.mlp_options, or `fallback` if the recipe does not give it. Call it while the layer is
  /// made: an option that no layer asks for is refused as a misspelling.
  double option(const std::string& name, double fallback) const { return options.number(name, fallback); }

  config::Options options{"model.mlp_options", "the layer " + model.mlp, model.mlp_options};
};

using FeedForwardFactory = std::function<std::unique_ptr<FeedForward>(const FeedForwardSpec&, const Builder&)>;

}  // namespace hexad::layers
