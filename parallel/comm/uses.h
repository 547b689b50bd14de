// Kinds of operations that a group performs on device tensors. The kinds need different connections between the ranks,
// but some connections serve several kinds.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "framework/base/ordinal.h"
#include "parallel/comm/operation.h"

namespace hexad::comm {

enum class Use : uint8_t {
  sums,        // all_reduce: sums of floating-point numbers; these connections also serve small_sums and counts
  small_sums,  // all_reduce: sums of floating-point numbers, below least_large_sum bytes
  counts,      // all_reduce: sums of integers, and all maxima and minima
  shares,      // reduce_scatter
  gathers,     // all_gather, broadcast
  exchanges,   // all_to_all, and some small all_gathers (use_over_nccl())
  messages,    // send, receive
};

/// Minimum size, in bytes, of a large sum. For large sums, libraries use algorithms that need other connections.
inline constexpr int64_t least_large_sum = 1 << 20;

/// Set of kinds of operations.
class Uses {
 public:
  constexpr Uses() = default;
  constexpr Uses(Use use) : bits_(1u << base::ordinal(use)) {}  // implicit, so that one kind can be passed as a set
  constexpr Uses(std::initializer_list<Use> uses) {
    for (const Use use : uses) bits_ |= 1u << base::ordinal(use);
  }
  constexpr bool has(Use use) const { return (bits_ >> base::ordinal(use) & 1u) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  /// Returns the union of two sets.
  friend constexpr Uses operator|(Uses a, Uses b) { return Uses(a.bits_ | b.bits_); }
  /// Returns the kinds of `a` that are not in `b`.
  friend constexpr Uses operator-(Uses a, Uses b) { return Uses(a.bits_ & ~b.bits_); }
  constexpr bool operator==(const Uses&) const = default;

 private:
  constexpr explicit Uses(uint32_t bits) : bits_(bits) {}
  uint32_t bits_ = 0;
};

/// Returns the kind of `op`, which must not be a barrier.
Use use_of(const Operation& op);
/// Returns the kind of operation whose connections serve `op` over NCCL, if the ranks are connected for `connected`. A
/// small all_gather uses the connections of exchanges if the ranks have no connections for gathers. Connections for
/// gathers would take more memory. `op` must not be a barrier.
Use use_over_nccl(const Operation& op, Uses connected);
/// Returns the kinds of operations that are needed for `uses` if ranks exchange addends and sum them in the order of
/// the ranks.
Uses with_sums_in_order(Uses uses);

}  // namespace hexad::comm
