// Positions of ranks on the mesh: pure arithmetic, the same on every rank.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/base/ordinal.h"
#include "framework/base/placement.h"
#include "parallel/mesh/axes.h"

namespace hexad::mesh {

using base::MeshView;
using base::Placement;

/// Placement of expert parallelism when contexts are cut (MoNTA, section IV). horizontal places it along data
/// parallelism, orthogonal to cp; vertical places it along cp first. automatic: vertical if cp >= ep or if horizontal
/// is not possible.
enum class Expansion : uint8_t { automatic, horizontal, vertical };

constexpr auto enum_names(Expansion) {
  return std::to_array<std::pair<Expansion, std::string_view>>(
      {{Expansion::automatic, "auto"}, {Expansion::horizontal, "horizontal"}, {Expansion::vertical, "vertical"}});
}

/// Sizes of the axes in a recipe, and their order.
struct Sizes {
  int pp = 1;
  int dp = 0;  // 0: follows from the number of ranks
  int cp = 1;
  int tp = 1;
  int ep = 1;
  int etp = 0;  // 0: equal to tp
  Expansion expansion = Expansion::automatic;
  std::string order{};  // an AxisOrder's text; empty: `expansion` decides
};

/// A rank's coordinates in the view of dense layers, and in that of experts.
struct DensePlace {
  int pp = 0, dp = 0, cp = 0, tp = 0;
};
struct ExpertPlace {
  int pp = 0, edp = 0, ep = 0, etp = 0;
};

/// Two views of the ranks. Dense layers see pp x dp x cp x tp; experts see pp x edp x ep x etp. Within a stage, tp cp
/// dp = etp ep edp.
///
/// Without an order: with dp = inner x outer, rank = t + tp (i + inner (c + cp (p + pp o))), and a dp coordinate is i +
/// inner o. Horizontal expansion has inner tp = etp ep; vertical has inner = 1. In the list of a stage's ranks etp
/// varies fastest, then ep, then edp.
///
/// With an order, as in Megatron-Core: the rank is the mixed-radix number over the axes of a view in that order. Dense
/// layers have no ep. Experts have no cp, and etp and edp take the places of tp and dp. Both views must give a rank the
/// same stage.
///
/// Every function takes time linear in the number of ranks that it returns.
class Layout {
 public:
  /// Throws IllegalLayout if `sizes` do not fit `world` ranks. The error shows the arithmetic and the nearest legal
  /// values.
  Layout(const Sizes& sizes, int world);

  int world() const { return world_; }
  int size(Axis axis) const { return sizes_[base::ordinal(axis)]; }
  /// Returns the resolved expansion, or automatic if an order places the axes.
  Expansion expansion() const { return expansion_; }
  /// Returns the order's text; empty if the expansion places the axes.
  const std::string& order() const { return order_; }

  int coordinate(Axis axis, int rank) const;
  /// Return the rank at a place, the inverse of coordinate().
  int rank_at(const DensePlace& place) const;
  int rank_at(const ExpertPlace& place) const;

  /// Returns the ranks that differ from `rank` only in this axis (within the axis's view), in its order, including
  /// `rank`.
  std::vector<int> members(Axis axis, int rank) const;
  /// Returns the ranks that work on the same micro-batch at the same stage: tp x cp, ordered by t + tp c.
  std::vector<int> token_sharers(int rank) const;
  /// Returns the ranks that hold the experts of a layer, including `rank`: ep x etp, ordered by j + etp p.
  std::vector<int> expert_sharers(int rank) const;
  /// Returns the ranks over which the gradient of `rank`'s piece is summed, in ascending order: dense over dp x cp,
  /// experts over edp. Axes along which the placement declares the gradient partial are added.
  std::vector<int> reducers(const Placement& placement, int rank) const;
  /// Returns the ranks of the stage that hold the same piece, in ascending order, whether or not they sum its gradient.
  /// For a tied piece, includes the second stage that holds it.
  std::vector<int> holders(const Placement& placement, int rank) const;
  /// Returns the lowest of reducers().
  int first_reducer(const Placement& placement, int rank) const;
  /// True if `rank` is the holder of this piece that counts it in norms and writes it into checkpoints.
  bool first_holder(const Placement& placement, int rank) const;
  /// True if every etp group lies inside one tp group, whose ranks hold the same tokens.
  bool etp_inside_tp() const;
  /// Returns "pp 1 x dp 2 x cp 1 x tp 2 | pp 1 x edp 1 x ep 2 x etp 2 (horizontal)", or "(order tp-cp-ep-dp-pp)".
  std::string to_string() const;

 private:
  // A stage, and the number of a rank within it. Within a stage both views are mixed-radix numbers without pp.
  struct Position {
    int stage, place;
  };
  // Places step * k for k in [first, first + count).
  struct Run {
    int step, first, count;
  };
  // Ranks of some stages. Their places are the sums of one place of every run. Runs are sorted, the longest steps
  // first.
  struct Sharers {
    std::vector<int> stages;
    std::array<Run, 4> runs;
  };
  enum class Copies : uint8_t { partial, all };  // along the tensor axis: only partial gradients, or all copies

  void place_by_expansion();
  void place_by_order(const AxisOrder& order);
  int& stride(Axis axis) { return strides_[base::ordinal(axis)]; }
  int stride(Axis axis) const { return strides_[base::ordinal(axis)]; }
  Position position(int rank) const;
  int rank_of(Position at) const;
  int coordinate(Axis axis, Position at) const;
  /// Returns the addend that a coordinate along `axis` (any axis but pp) contributes to the number of a place.
  int part(Axis axis, int coordinate) const;
  Sharers sharers(const Placement& placement, int rank, Copies copies) const;
  Run same_pieces(const Placement& placement, Axis tensor, int mine, Copies copies) const;
  std::vector<int> ranks_of(const Sharers& sharers) const;
  int lowest(const Sharers& sharers) const;
  /// Returns the ranks that differ from `rank` along two axes of one view, ordered by (major, minor).
  std::vector<int> plane(Axis major, Axis minor, int rank) const;

  int world_;
  std::array<int, axis_count> sizes_{};
  Expansion expansion_;
  std::string order_;
  // Distance of neighbours along an axis, in places; for pp, in ranks. A dp coordinate is i + inner o.
  std::array<int, axis_count> strides_{};
  int inner_ = 1;         // factor `inner` of dp
  int outer_stride_ = 1;  // distance of neighbours along o
};

/// Calls f(ranks) once for every group, in the order of the groups' lowest ranks. `group_of(rank)` returns the ranks of
/// the group of a rank, and every rank is in one group.
template <class GroupOf, class F>
void for_each_group(int world, const GroupOf& group_of, const F& f) {
  std::vector<bool> seen(static_cast<size_t>(world), false);
  for (int rank = 0; rank < world; ++rank) {
    if (seen[static_cast<size_t>(rank)]) continue;
    const std::vector<int> ranks = group_of(rank);
    for (const int r : ranks) seen[static_cast<size_t>(r)] = true;
    f(ranks);
  }
}

}  // namespace hexad::mesh
