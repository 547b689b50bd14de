// The recipe's section `model.delta_net`.
#pragma once

#include <cstdint>
#include <optional>

#include "framework/config/constraints.h"

namespace hexad::layers {

/// Sizes of gated delta nets (Yang et al. 2024), with the layout of Qwen3-Next.
struct DeltaNetConfig {
  int64_t heads = 0;  // 0: the model has no delta nets
  std::optional<int64_t> key_heads;
  int64_t key_size = 128, value_size = 128, conv_size = 4;
  double norm_eps = 1e-6;

  bool operator==(const DeltaNetConfig&) const = default;
  bool used() const { return heads > 0; }
  int64_t number_of_key_heads() const { return key_heads.value_or(heads); }
  /// Returns the width of all query heads together, which is also the width of all key heads together.
  int64_t key_width() const { return number_of_key_heads() * key_size; }
  /// Returns the width of all value heads together.
  int64_t value_width() const { return heads * value_size; }

  template <class V>
  void fields(V& v) {
    using config::at_least, config::automatic;
    v("heads", heads, "number of value heads, each of which has a state of key_size x value_size; 0: no delta nets",
      at_least(0));
    v("key_heads", key_heads, "number of query and key heads, which groups of value heads share; auto: same as heads",
      automatic, at_least(1));
    v("key_size", key_size, "number of dimensions of a query or key head", at_least(1));
    v("value_size", value_size, "number of dimensions of a value head", at_least(1));
    v("conv_size", conv_size,
      "number of tokens, including the current token, that the causal convolutions of queries, keys and values read",
      at_least(2));
    v("norm_eps", norm_eps, "constant added to the mean square in the norm of the result", config::positive());
  }
};

}  // namespace hexad::layers
