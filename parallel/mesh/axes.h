// Axes of the mesh, and their order: which axis varies fastest over the ranks.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "framework/base/error.h"
#include "framework/base/placement.h"

namespace hexad::mesh {

using base::Axis;

inline constexpr int axis_count = 7;
std::string_view name_of(Axis axis);

/// Error for sizes or an order that are illegal for the number of ranks. `key` is the recipe key to change. The message
/// is "key (value) reason", or "key reason" if `value` is empty.
class IllegalLayout : public base::Error {
 public:
  IllegalLayout(std::string key, const std::string& value, std::string reason)
      : Error(base::ExitCode::usage, key + (value.empty() ? "" : " (" + value + ")") + " " + reason),
        key_(std::move(key)),
        reason_(std::move(reason)) {}
  const std::string& key() const { return key_; }
  const std::string& reason() const { return reason_; }

 private:
  std::string key_, reason_;
};

/// Order in which the axes vary over the ranks, fastest first: a permutation of tp, cp, ep, dp and pp. The notation is
/// the same as in Megatron-Core (`--order`).
class AxisOrder {
 public:
  using Axes = std::array<Axis, 5>;
  /// Default order of Megatron-Core. Suggestions insert missing axes in this order.
  static constexpr Axes usual{Axis::tp, Axis::cp, Axis::ep, Axis::dp, Axis::pp};

  /// Reads a text such as "tp-cp-ep-dp-pp". Throws IllegalLayout, with the key parallel.order and the nearest legal
  /// order, if an axis is unknown, repeated or missing.
  explicit AxisOrder(std::string_view text);

  const Axes& axes() const { return axes_; }
  /// Returns the index of `axis` (tp, cp, ep, dp or pp) in this order.
  size_t place_of(Axis axis) const;
  /// Returns this order with `axis` moved to index `place`.
  AxisOrder with(Axis axis, size_t place) const;
  std::string to_string() const;

 private:
  explicit AxisOrder(const Axes& axes) : axes_(axes) {}

  Axes axes_;
};

}  // namespace hexad::mesh
