// The recipe's section `model.latent`, and the kinds of attention.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "framework/config/constraints.h"

namespace hexad::layers {

/// Kind of self-attention.
///   - grouped: groups of query heads share a key/value head
///   - latent: keys and values are computed from a compressed vector of each token (DeepSeek-V2, 2024)
enum class AttentionKind : uint8_t { grouped, latent };
constexpr auto enum_names(AttentionKind) {
  return std::to_array<std::pair<AttentionKind, std::string_view>>(
      {{AttentionKind::grouped, "grouped"}, {AttentionKind::latent, "latent"}});
}

/// Sizes of multi-head latent attention.
struct LatentConfig {
  int64_t q_rank = 0, kv_rank = 512;  // q_rank 0: queries are not compressed
  int64_t nope_size = 128, rope_size = 64, value_size = 128;
  double norm_eps = 1e-6;

  bool operator==(const LatentConfig&) const = default;
  /// Returns the size of a query or key head: the size of its rotary part plus the size of its part without positions.
  int64_t key_size() const { return rope_size + nope_size; }

  template <class V>
  void fields(V& v) {
    using config::at_least;
    v("q_rank", q_rank, "width of the compressed queries; 0: queries are not compressed", at_least(0));
    v("kv_rank", kv_rank, "width of the compressed keys and values", at_least(1));
    v("nope_size", nope_size, "number of dimensions of a query or key head that rotary positions do not rotate",
      at_least(1));
    v("rope_size", rope_size,
      "number of dimensions of a query or key head that rotary positions rotate; all heads share this part of the key",
      at_least(2));
    v("value_size", value_size, "number of dimensions of a value head", at_least(1));
    v("norm_eps", norm_eps, "constant added to the mean square in the norms of compressed vectors", config::positive());
  }
};

}  // namespace hexad::layers
