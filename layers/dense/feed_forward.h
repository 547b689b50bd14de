// The dense feed-forward layer of a block. A recipe chooses it by name (model.mlp).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "framework/config/options.h"
#include "layers/base/builder.h"
#include "layers/base/layer_names.h"
#include "layers/base/micro_batch.h"
#include "layers/base/model_config.h"

namespace hexad::layers {

/// Numbers of operations in the forward pass of a feed-forward layer. Only the cost of the task shared_experts depends
/// on these numbers (schedule.moe.shared: beside).
struct FeedForwardWork {
  int64_t products;            // matrix products, at least 1; the weights of each have hidden x width elements
  int64_t column_linears = 0;  // calls of tp::column_linear, whose input rows have model.hidden elements
  int64_t row_linears = 0;     // calls of tp::row_linear, whose result rows have model.hidden elements
};

/// Feed-forward layer, which maps x[T, hidden] to an output of the same shape. `context` is the context of the
/// micro-batch.
class FeedForward {
 public:
  virtual ~FeedForward() = default;
  virtual Value operator()(Tape& t, const Value& x, const ForwardContext& context) const = 0;
  virtual FeedForwardWork work() const = 0;
};

struct FeedForwardSpec;
using FeedForwardFactory = std::function<std::unique_ptr<FeedForward>(const FeedForwardSpec&, const Builder&)>;

/// Declaration of a layer that a recipe may choose: the names of its options, and its factory. A recipe that sets any
/// other option is rejected before a layer is made.
struct FeedForwardDeclaration {
  config::OptionNames options{};  // names of the options in model.mlp_options
  FeedForwardFactory make;
};

/// Returns the recipe key that holds the options of the layer named by `model`, and the layer's name for error
/// messages.
inline config::OptionsOwner feed_forward_options(const ModelConfig& model) {
  return {"model.mlp_options", "the layer " + model.mlp};
}

/// Arguments of the function that makes a registered layer.
struct FeedForwardSpec {
  const ModelConfig& model;
  int64_t layer;   // index of the block in the model
  int64_t hidden;  // width of the hidden layer, from model.mlp_hidden
  const FeedForwardDeclaration& declared;

  /// Returns option `name` of model.mlp_options, or `fallback` if the recipe does not set it. Throws std::logic_error
  /// if the option is not declared, and Error(usage) if its value is not a finite number.
  double option(const std::string& name, double fallback) const { return options.number(name, fallback); }

  config::Options options{feed_forward_options(model), declared.options, model.mlp_options};
};

}  // namespace hexad::layers
