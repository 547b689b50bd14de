// Sequence lengths as text, and the growth of process groups with the sequence length (MoNTA, section IV).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parallel/mesh/layout.h"

namespace hexad::plan {

/// Parses a text that states one or several sequence lengths in tokens. "4096" or "4K" is a single length. "4K..1M" is
/// 4K and its doublings up to 1M. K is 1024, M is 1024 K. Throws Error(usage) in these cases:
/// - the text has another form
/// - a length is not from 1 to 4M (max_micro_batch_tokens, the limit of predictions)
/// - the last length is not the first length times 1, 2, 4, ...; the error gives the nearest legal ranges
std::vector<int64_t> context_lengths(std::string_view text);

/// Returns `tokens` as a text such as "4K" or "1M". Returns the plain number if `tokens` is not a multiple of 1024.
std::string context_text(int64_t tokens);

/// Placement of a layout's expert groups relative to its context-parallel groups.
struct ContextExpansion {
  /// Kind of expansion. none: sequences are not split (cp 1). horizontal, vertical: as in mesh::Expansion.
  enum class Kind : uint8_t { none, horizontal, vertical } kind;
  /// Number of ranks with the same tensor coordinate that communicate over the network: cp x ep if the expansion is
  /// horizontal, otherwise max(cp, ep). ep x etp / tp (rounded up) replaces ep if etp differs from tp.
  int64_t switched;
  /// Smallest number of ranks of a job with these groups. The job can only grow in steps of this number.
  int64_t smallest_step;
  /// Number of micro-batches that an EP group computes at the same time: 1 under vertical expansion with cp >= ep.
  int64_t micro_batches;
};
constexpr auto enum_names(ContextExpansion::Kind) {
  using enum ContextExpansion::Kind;
  return std::to_array<std::pair<ContextExpansion::Kind, std::string_view>>(
      {{none, "none"}, {horizontal, "horizontal"}, {vertical, "vertical"}});
}

/// Returns the expansion of a layout. The layout must not set an order of axes.
ContextExpansion expansion_of(const mesh::Layout& layout);

/// Axis whose size differs between two layouts.
struct ChangedAxis {
  base::Axis axis;
  int from, to;
};
/// Returns the axes of different size, in the order tp, cp, ep, etp, pp, dp, edp.
std::vector<ChangedAxis> changed_axes(const mesh::Layout& from, const mesh::Layout& to);

}  // namespace hexad::plan
