// Positions of ranks on the mesh. Contains only arithmetic, with the same results on every rank.
#pragma once

#include <array>
#include <cstdint>
#include <span>
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

/// Placement of expert parallelism if cp > 1 (MoNTA, section IV).
/// horizontal: ep extends along data parallelism, orthogonal to cp.
/// vertical: ep extends first along cp.
/// automatic: vertical if cp >= ep (and cp > 1) or if horizontal is impossible, otherwise horizontal.
enum class Expansion : uint8_t { automatic, horizontal, vertical };

constexpr auto enum_names(Expansion) {
  return std::to_array<std::pair<Expansion, std::string_view>>(
      {{Expansion::automatic, "auto"}, {Expansion::horizontal, "horizontal"}, {Expansion::vertical, "vertical"}});
}

/// Sizes of the axes in a recipe, and the order of the axes.
struct Sizes {
  int pp = 1;
  int dp = 0;  // 0: computed from the number of ranks
  int cp = 1;
  int tp = 1;
  int ep = 1;
  int etp = 0;  // 0: equal to tp
  Expansion expansion = Expansion::automatic;
  std::string order{};  // text of an AxisOrder; empty: `expansion` determines the order
};

/// Coordinates of a rank in the view of dense layers, and in the view of experts.
struct DensePlace {
  int pp = 0, dp = 0, cp = 0, tp = 0;
};
struct ExpertPlace {
  int pp = 0, edp = 0, ep = 0, etp = 0;
};

/// The two views of the ranks: dense layers use pp x dp x cp x tp, experts use pp x edp x ep x etp. Within a stage,
/// tp * cp * dp = etp * ep * edp.
///
/// Without an order:
/// - dp = inner * outer
/// - rank = t + tp * (i + inner * (c + cp * (p + pp * o))), where t, c and p are the coordinates along tp, cp and pp,
///   and i + inner * o is the coordinate along dp
/// - horizontal expansion: inner * tp = etp * ep, or inner = 1 if etp * ep divides tp
/// - vertical expansion: inner = 1
/// - Among the ranks of a stage, etp varies fastest, then ep, then edp.
///
/// With an order, as in Megatron-Core: the rank is the mixed-radix number of its coordinates along the axes of a view,
/// in the given order. The view of dense layers has no ep. The view of experts has no cp, and has etp and edp in place
/// of tp and dp. A rank must have the same stage in both views.
///
/// The time of every function that returns ranks is linear in their number. The time of every other function is at most
/// linear in the sizes of tp and etp.
class Layout {
 public:
  /// Throws IllegalLayout if `sizes` are illegal for `world` ranks. The error names the key and the reason, and
  /// suggests legal values.
  Layout(const Sizes& sizes, int world);

  int world() const { return world_; }
  int size(Axis axis) const { return sizes_[base::ordinal(axis)]; }
  /// Returns the expansion in use; `automatic` if there is an order instead.
  Expansion expansion() const { return expansion_; }
  /// Returns the text of the order; empty if there is none.
  const std::string& order() const { return order_; }

  int coordinate(Axis axis, int rank) const;
  /// The next two functions return the rank with these coordinates. Inverse of coordinate().
  int rank_at(const DensePlace& place) const;
  int rank_at(const ExpertPlace& place) const;

  /// Returns the ranks, including `rank`, that differ from `rank` only in their coordinate along `axis` (in its view),
  /// ordered by this coordinate.
  std::vector<int> members(Axis axis, int rank) const;
  /// Returns the tp x cp ranks that work on the same micro-batch in the same stage, ordered by t + tp * c (tp
  /// coordinate t, cp coordinate c).
  std::vector<int> token_sharers(int rank) const;
  /// Returns the ep x etp ranks, including `rank`, that together have all experts of a layer, ordered by j + etp * p
  /// (ep coordinate p, etp coordinate j).
  std::vector<int> expert_sharers(int rank) const;
  /// Returns the ranks over which the gradient of `rank`'s piece is summed, in ascending order. For dense layers, their
  /// coordinates differ along dp and cp; for experts, along edp. The coordinates of ranks with the same piece may also
  /// differ along axes for which the placement declares the gradient partial.
  std::vector<int> reducers(const Placement& placement, int rank) const;
  /// Returns the ranks of `rank`'s stage that have the same piece as `rank`, in ascending order, even if they are not
  /// in reducers(). For a piece that the first and the last stage share, also includes ranks of the other stage.
  std::vector<int> holders(const Placement& placement, int rank) const;
  /// True if reducers() returns the same ranks for both placements. Does not compute the lists of ranks.
  bool same_reducers(const Placement& a, const Placement& b, int rank) const;
  /// Returns the lowest rank of reducers().
  int first_reducer(const Placement& placement, int rank) const;
  /// True if `rank` is the lowest rank of holders().
  bool first_holder(const Placement& placement, int rank) const;
  /// True if every etp group is part of a tp group. The ranks of a tp group have the same tokens.
  bool etp_inside_tp() const;
  /// Returns a text like "pp 1 x dp 2 x cp 1 x tp 2 | pp 1 x edp 1 x ep 2 x etp 2 (horizontal)". The text ends in
  /// "(order tp-cp-ep-dp-pp)" if there is an order.
  std::string to_string() const;

 private:
  // Stage of a rank, and place: the index of the rank within its stage. In both views, the place is a mixed-radix
  // number of all coordinates except pp.
  struct Position {
    int stage, place;
  };
  // The places step * k for k in [first, first + count).
  struct Run {
    int step, first, count;
    bool operator==(const Run&) const = default;
  };
  // Set of ranks in `stages`. The place of each rank is a sum of one place from each run. Runs are sorted by descending
  // step.
  struct Sharers {
    std::vector<int> stages;
    std::array<Run, 4> runs;
  };
  enum class Copies : uint8_t {
    partial,
    all
  };  // copies along tp or etp to include: copies with partial gradients, or all copies

  void place_by_expansion();
  void place_by_order(const AxisOrder& order);
  int& stride(Axis axis) { return strides_[base::ordinal(axis)]; }
  int stride(Axis axis) const { return strides_[base::ordinal(axis)]; }
  Position position(int rank) const;
  int rank_of(Position at) const;
  int coordinate(Axis axis, Position at) const;
  /// Returns the contribution of a coordinate along `axis` (any axis except pp) to the place of a rank.
  int part(Axis axis, int coordinate) const;
  Sharers sharers(const Placement& placement, int rank, Copies copies) const;
  Run same_pieces(const Placement& placement, Axis tensor, int mine, Copies copies) const;
  static std::vector<Run> merged(const Sharers& sharers);
  std::vector<int> ranks_of(const Sharers& sharers) const;
  int lowest(const Sharers& sharers) const;
  /// Returns the ranks, including `rank`, that differ from `rank` only along two axes of one view, ordered by (major,
  /// minor).
  std::vector<int> ranks_along(Axis major, Axis minor, int rank) const;

  int world_;
  std::array<int, axis_count> sizes_{};
  Expansion expansion_;
  std::string order_;
  // Distance between adjacent coordinates along each axis: in ranks for pp, otherwise in places. A coordinate along dp
  // is i + inner * o.
  std::array<int, axis_count> strides_{};
  int inner_ = 1;         // factor `inner` of dp
  int outer_stride_ = 1;  // distance between adjacent values of o
};

/// Calls f(ranks) once for each group, in the order of the groups' lowest ranks. group_of(rank) must return the ranks
/// of the group of `rank`. Every rank must be in exactly one group.
template <class GroupOf, class F>
void for_each_group(int world, const GroupOf& group_of, const F& f) {
  std::vector<bool> seen(world, false);
  for (int rank = 0; rank < world; ++rank) {
    if (seen[rank]) continue;
    const std::vector<int> ranks = group_of(rank);
    for (const int r : ranks) seen[r] = true;
    f(ranks);
  }
}

/// Returns the first group along `axis` whose ranks are on several nodes; empty if there is none. `node_of_rank` names
/// the node of each rank. Takes time linear in the number of all ranks.
std::vector<int> group_across_nodes(const Layout& layout, Axis axis, std::span<const int> node_of_rank);

}  // namespace hexad::mesh
