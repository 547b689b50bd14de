// Methods by which ranks that share a sequence attend to each other's tokens.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

namespace hexad::cp {

/// ring: keys and values travel around while attention is computed (Liu et al. 2023). all_gather: everybody gets all of
/// them first (Llama 3, section 3.3.2). ulysses: heads for tokens by all-to-all, then plain attention (Jacobs et al.
/// 2023).
enum class ContextKind : uint8_t { ring, all_gather, ulysses };
constexpr auto enum_names(ContextKind) {
  return std::to_array<std::pair<ContextKind, std::string_view>>(
      {{ContextKind::ring, "ring"}, {ContextKind::all_gather, "all_gather"}, {ContextKind::ulysses, "ulysses"}});
}

}  // namespace hexad::cp
