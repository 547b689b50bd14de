// Activations that are recomputed in backward instead of being kept.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

namespace hexad::layers {

/// Kind of activations that are recomputed.
///   - none: no activation
///   - norms: outputs of norms
///   - attention: the first norm of a block, and everything inside attention or a delta net
///   - block: everything inside a block except its input
enum class Recompute : uint8_t { none, norms, attention, block };
constexpr auto enum_names(Recompute) {
  return std::to_array<std::pair<Recompute, std::string_view>>({{Recompute::none, "none"},
                                                                {Recompute::norms, "norms"},
                                                                {Recompute::attention, "attention"},
                                                                {Recompute::block, "block"}});
}

}  // namespace hexad::layers
