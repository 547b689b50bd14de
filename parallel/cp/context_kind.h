// Methods of attention for ranks among which the tokens of sequences are divided.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

namespace hexad::cp {

/// Method of context attention.
/// ring: keys and values circulate while attention is computed (Liu et al. 2023).
/// all_gather: every rank first gathers all keys and values (Llama 3, section 3.3.2).
/// ulysses: an all-to-all exchanges tokens for heads, after which attention is plain (Jacobs et al. 2023).
enum class ContextKind : uint8_t { ring, all_gather, ulysses };
constexpr auto enum_names(ContextKind) {
  return std::to_array<std::pair<ContextKind, std::string_view>>(
      {{ContextKind::ring, "ring"}, {ContextKind::all_gather, "all_gather"}, {ContextKind::ulysses, "ulysses"}});
}

}  // namespace hexad::cp
