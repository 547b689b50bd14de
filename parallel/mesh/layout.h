// Positions of ranks on the mesh: arithmetic alone, the same on every rank.
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

/// Placement of expert parallelism when contexts are cut (MoNTA, section IV): horizontal puts it along data
/// parallelism, orthogonal to cp; vertical along cp first. automatic: vertical when cp >= ep or when horizontal is not
/// possible.
enum class Expansion : uint8_t { automatic, horizontal, vertical };

constexpr auto enum_names(Expansion) {
  return std::to_array<std::pair<Expansion, std::string_view>>(
      {{Expansion::automatic, "auto"}, {Expansion::horizontal, "horizontal"}, {Expansion::vertical, "vertical"}});
}

/// Sizes that do not fit the ranks. `key` is the recipe's that has to change; the message is "key (value) reason".
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

/// Sizes of the axes that a recipe asks for.
struct Sizes {
  int pp = 1;
  int dp = 0;  // 0: follows from the number of ranks
  int cp = 1;
  int tp = 1;
  int ep = 1;
  int etp = 0;  // 0: as tp
  Expansion expansion = Expansion::automatic;
};

/// Two views of the ranks: dense layers see pp x dp x cp x tp, experts see pp x edp x ep x etp, where within a stage
/// tp cp dp = etp ep edp. With dp = inner x outer, rank = t + tp (i + inner (c + cp (p + pp o))) and a dp coordinate is
/// i + inner o; horizontal expansion has inner tp = etp ep, vertical has inner = 1. In the list of a stage's ranks etp
/// varies fastest, then ep, then edp.
class Layout {
 public:
  /// Throws IllegalLayout, showing the arithmetic and the nearest legal values, when `sizes` do not fit `world` ranks.
  Layout(const Sizes& sizes, int world);

  int world() const { return world_; }
  int size(Axis axis) const { return sizes_[base::ordinal(axis)]; }
  Expansion expansion() const { return expansion_; }  // the one chosen
  int coordinate(Axis axis, int rank) const;
  /// Ranks that differ from `rank` in this axis only (within the axis's view), in its order; `rank` is among them.
  std::vector<int> members(Axis axis, int rank) const;
  /// Ranks that work on the same micro-batch at the same stage: tp x cp, ordered by t + tp c.
  std::vector<int> token_sharers(int rank) const;
  /// Ranks over which the experts of a layer lie, of which `rank` is one: ep x etp, ordered by j + etp p.
  std::vector<int> expert_sharers(int rank) const;
  /// Ranks over which the gradient of `rank`'s piece is summed: dense over dp x cp, experts over edp, and over the
  /// axes along which the placement says that it is partial.
  std::vector<int> reducers(const Placement& placement, int rank) const;
  /// Ranks of the stage that hold the same piece, whether they sum its gradient or not (and of the other stage that
  /// holds a tied one).
  std::vector<int> holders(const Placement& placement, int rank) const;
  /// True if `rank` is the holder of this piece that counts it in norms and writes it into checkpoints.
  bool first_holder(const Placement& placement, int rank) const { return holders(placement, rank).front() == rank; }
  /// "pp 1 x dp 2 x cp 1 x tp 2 | pp 1 x edp 1 x ep 2 x etp 2 (horizontal)"
  std::string to_string() const;

 private:
  using Coordinates = std::array<int, axis_count>;
  Coordinates coordinates(int rank) const;
  enum class Copies : uint8_t { partial, all };  // along the tensor axis: those that add up, or all
  std::vector<int> sharers(const Placement& placement, int rank, Copies copies) const;
  template <class Same>
  std::vector<int> ranks_where(Same same) const;
  /// Ranks of the same stage and the same coordinate along `replicas`, ordered by (major, minor).
  std::vector<int> same_replica(Axis replicas, Axis major, Axis minor, int rank) const;

  int world_;
  std::array<int, axis_count> sizes_{};
  int inner_ = 1;  // of dp
  Expansion expansion_;
};

}  // namespace hexad::mesh
