// Who is where on the mesh: arithmetic alone, the same on every rank.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/placement.h"

namespace hexad::mesh {

using base::Axis;
using base::MeshView;

inline constexpr int axis_count = 7;
std::string_view name_of(Axis axis);

/// Where expert parallelism lies when contexts are cut (MoNTA, section IV): horizontal puts it along data parallelism,
/// orthogonal to cp; vertical along cp first. automatic: vertical when cp >= ep or when horizontal is not possible.
enum class Expansion : uint8_t { automatic, horizontal, vertical };

/// What a recipe asks for.
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
  /// Throws Error(usage), showing the arithmetic and the nearest legal values, when `sizes` do not fit `world` ranks.
  Layout(const Sizes& sizes, int world);

  int world() const { return world_; }
  int size(Axis axis) const { return sizes_[static_cast<size_t>(axis)]; }
  Expansion expansion() const { return expansion_; }  // the one chosen
  int coordinate(Axis axis, int rank) const;
  /// Ranks that differ from `rank` in this axis only (within the axis's view), in its order; `rank` is among them.
  std::vector<int> members(Axis axis, int rank) const;
  /// Ranks that hold the same parameters of a view and other data: dense over dp x cp, experts over edp.
  std::vector<int> replicas(MeshView view, int rank) const;
  /// "pp 1 x dp 2 x cp 1 x tp 2 | pp 1 x edp 1 x ep 2 x etp 2 (horizontal)"
  std::string to_string() const;

 private:
  using Coordinates = std::array<int, axis_count>;
  Coordinates coordinates(int rank) const;
  template <class Same>
  std::vector<int> ranks_where(Same same) const;

  int world_;
  std::array<int, axis_count> sizes_{};
  int inner_ = 1;  // of dp
  Expansion expansion_;
};

}  // namespace hexad::mesh
