// Linear layer, or a stack of linear layers with the same input.
#pragma once

#include <string>
#include <vector>

#include "layers/base/builder.h"
#include "layers/base/layer_names.h"
#include "layers/base/micro_batch.h"
#include "parallel/tp/parallel_linear.h"

namespace hexad::layers {

using autograd::linear;

/// Dimension of a linear layer that is split over tp ranks (Megatron-LM): none, outputs (column parallel,
/// tp::column_linear), or inputs (row parallel, tp::row_linear).
enum class Parallel : uint8_t { none, column, row };

/// Linear layer y[T, outputs] = x[T, inputs] weight^T + bias. Its parameters are "weight" [outputs, inputs], and "bias"
/// if Config::bias is true. The layer can stack n linear layers that read the same x. The stack's parameters are
/// "weight" [n, outputs, inputs] and "bias" [n, outputs]. Its result y[T, n outputs] holds the results of the n layers
/// side by side.
struct Linear {
  struct Config {
    int64_t inputs, outputs;
    double init_std;
    bool bias = false;
    Parallel parallel = Parallel::none;
    int64_t pieces = 0;  // pieces of the outputs (see Builder::shard), for key/value heads; 0: one per rank
    // Prefixes that the stacked layers would have as separate layers (Builder::prefix); empty: no stack.
    std::vector<std::string> stack{};

    int first_dim() const { return stack.empty() ? 0 : 1; }
    Shape shape(std::vector<int64_t> of_one) const {
      if (!stack.empty()) of_one.insert(of_one.begin(), static_cast<int64_t>(stack.size()));
      return Shape(of_one);
    }
    Stack stack_of(const std::string& parameter) const {
      Stack s{.dim = 0, .names = stack};
      for (std::string& name : s.names) name += "." + parameter;
      return s;
    }
  };
  Parameter* weight;
  Parameter* bias;

  Linear(const Config& c, const Builder& b)
      : weight(&b.parameter("weight", c.shape({c.outputs, c.inputs}),
                            {.init = {Init::Kind::normal, c.init_std},
                             .placement = c.parallel == Parallel::none     ? b.replicated()
                                          : c.parallel == Parallel::column ? b.shard(c.first_dim(), c.pieces)
                                                                           : b.shard(c.first_dim() + 1),
                             .stack = c.stack_of("weight")})),
        bias(c.bias ? &b.parameter("bias", c.shape({c.outputs}),
                                   {.init = {Init::Kind::constant, 0},
                                    .decay = false,
                                    .placement = c.parallel == Parallel::column ? b.shard(c.first_dim(), c.pieces)
                                                                                : b.replicated(),
                                    .stack = c.stack_of("bias")})
                    : nullptr) {}

  /// Applies a layer that is not split over ranks.
  Value operator()(Tape& t, const Value& x) const { return linear(t, x, *weight, bias); }
  /// Returns the parameters as an argument of tp::column_linear.
  tp::Projection projection() const { return {weight, bias}; }
};

}  // namespace hexad::layers
