// Kinds of operations that a group does with device tensors. Ranks are connected for each kind separately.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "framework/base/ordinal.h"
#include "parallel/comm/operation.h"

namespace hexad::comm {

enum class Use : uint8_t {
  sums,        // all_reduce of floating-point numbers, of any size
  small_sums,  // all_reduce of less than least_large_sum bytes of floating-point numbers
  counts,      // all_reduce of integers; maxima and minima
  shares,      // reduce_scatter
  gathers,     // all_gather, broadcast
  exchanges,   // all_to_all
  messages,    // send, receive
};

/// Size in bytes from which a sum is large. Libraries use other algorithms, with other connections, for large sums.
inline constexpr int64_t least_large_sum = 1 << 20;

/// Set of kinds.
class Uses {
 public:
  constexpr Uses() = default;
  constexpr Uses(Use use) : bits_(1u << base::ordinal(use)) {}  // implicit conversion: a kind is a set of one
  constexpr Uses(std::initializer_list<Use> uses) {
    for (const Use use : uses) bits_ |= 1u << base::ordinal(use);
  }
  constexpr bool has(Use use) const { return (bits_ >> base::ordinal(use) & 1u) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  /// Returns the union.
  friend constexpr Uses operator|(Uses a, Uses b) { return Uses(a.bits_ | b.bits_); }
  /// Returns the kinds of `a` that are not in `b`.
  friend constexpr Uses operator-(Uses a, Uses b) { return Uses(a.bits_ & ~b.bits_); }
  constexpr bool operator==(const Uses&) const = default;

 private:
  constexpr explicit Uses(uint32_t bits) : bits_(bits) {}
  uint32_t bits_ = 0;
};

/// Returns the kind of an operation, which must not be a barrier.
Use use_of(const Operation& op);
/// Returns the kinds of operations that implement these kinds if ranks exchange the addends of a sum and add them in
/// rank order.
Uses with_sums_in_order(Uses uses);

}  // namespace hexad::comm
