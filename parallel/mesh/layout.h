// Positions of ranks on the mesh: pure arithmetic, the same on every rank.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/base/error.h"
#include "framework/base/ordinal.h"
#include "framework/base/placement.h"

namespace hexad::mesh {

using base::Axis;
using base::MeshView;
using base::Placement;

inline constexpr int axis_count = 7;
std::string_view name_of(Axis axis);

/// Placement of expert parallelism when contexts are cut (MoNTA, section IV). horizontal places it along data
/// parallelism, orthogonal to cp; vertical places it along cp first. automatic: vertical if cp >= ep or if horizontal
/// is not possible.
enum class Expansion : uint8_t { automatic, horizontal, vertical };

constexpr auto enum_names(Expansion) {
  return std::to_array<std::pair<Expansion, std::string_view>>(
      {{Expansion::automatic, "auto"}, {Expansion::horizontal, "horizontal"}, {Expansion::vertical, "vertical"}});
}

/// Error for sizes that do not fit the ranks. `key` is the recipe key that must change; the message is "key (value)
/// reason".
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

/// Sizes of the axes in a recipe.
struct Sizes {
  int pp = 1;
  int dp = 0;  // 0: follows from the number of ranks
  int cp = 1;
  int tp = 1;
  int ep = 1;
  int etp = 0;  // 0: equal to tp
  Expansion expansion = Expansion::automatic;
};

/// Two views of the ranks. Dense layers see pp x dp x cp x tp; experts see pp x edp x ep x etp. Within a stage, tp cp
/// dp = etp ep edp. With dp = inner x outer, rank = t + tp (i + inner (c + cp (p + pp o))), and a dp coordinate is i +
/// inner o. Horizontal expansion has inner tp = etp ep; vertical has inner = 1. In the list of a stage's ranks etp
/// varies fastest, then ep, then edp.
class Layout {
 public:
  /// Throws IllegalLayout if `sizes` do not fit `world` ranks. The error shows the arithmetic and the nearest legal
  /// values.
  Layout(const Sizes& sizes, int world);

  int world() const { return world_; }
  int size(Axis axis) const { return sizes_[base::ordinal(axis)]; }
  Expansion expansion() const { return expansion_; }  // the resolved one, never automatic
  int coordinate(Axis axis, int rank) const;
  /// Returns the ranks that differ from `rank` only in this axis (within the axis's view), in its order, including
  /// `rank`.
  std::vector<int> members(Axis axis, int rank) const;
  /// Returns the ranks that work on the same micro-batch at the same stage: tp x cp, ordered by t + tp c.
  std::vector<int> token_sharers(int rank) const;
  /// Returns the ranks that hold the experts of a layer, including `rank`: ep x etp, ordered by j + etp p.
  std::vector<int> expert_sharers(int rank) const;
  /// Returns the ranks over which the gradient of `rank`'s piece is summed: dense over dp x cp, experts over edp. Axes
  /// along which the placement declares the gradient partial are added.
  std::vector<int> reducers(const Placement& placement, int rank) const;
  /// Returns the ranks of the stage that hold the same piece, whether or not they sum its gradient. For a tied piece,
  /// includes the second stage that holds it.
  std::vector<int> holders(const Placement& placement, int rank) const;
  /// True if `rank` is the holder of this piece that counts it in norms and writes it into checkpoints.
  bool first_holder(const Placement& placement, int rank) const { return holders(placement, rank).front() == rank; }
  /// Returns "pp 1 x dp 2 x cp 1 x tp 2 | pp 1 x edp 1 x ep 2 x etp 2 (horizontal)".
  std::string to_string() const;

 private:
  using Coordinates = std::array<int, axis_count>;
  Coordinates coordinates(int rank) const;
  enum class Copies : uint8_t { partial, all };  // along the tensor axis: only partial gradients, or all copies
  std::vector<int> sharers(const Placement& placement, int rank, Copies copies) const;
  template <class Same>
  std::vector<int> ranks_where(Same same) const;
  /// Returns the ranks of the same stage with the same coordinate along `replicas`, ordered by (major, minor).
  std::vector<int> same_replica(Axis replicas, Axis major, Axis minor, int rank) const;

  int world_;
  std::array<int, axis_count> sizes_{};
  int inner_ = 1;  // ranks of the inner part of dp
  Expansion expansion_;
};

}  // namespace hexad::mesh
