// Groups of ranks along the axes of the mesh, in the two views of parallel/mesh/layout.h.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "framework/base/ordinal.h"
#include "parallel/comm/node_groups.h"
#include "parallel/comm/windows.h"
#include "parallel/mesh/layout.h"

namespace hexad::mesh {

using comm::ProcessGroup;

/// Parameters of which several ranks have the same piece. Their gradients need additional groups.
struct SharedPieces {
  // Number of pieces along tp if tp ranks share pieces (fewer key/value heads than tp); otherwise 0.
  int tensor_pieces = 0;
  bool first_and_last = false;  // true if the first and the last stage have the same piece (of the embedding)
};

/// Group of ranks that makes exchanges in two levels impossible.
struct UnfitGroup {
  std::vector<int> ranks;
  // True if the group has two levels (comm::NodeGrid::two_levels()) and the groups before it have one level, or the
  // reverse. If false, the nodes of the group have different numbers of its ranks. A group on such nodes counts as a
  // group with one level.
  bool unlike_others;
};

/// Threads of a rank that post collectives of MoE passes.
/// - rank: only the rank's thread.
/// - lanes: also the threads of lanes, at the same time as the rank's thread (schedule::execute() with tasks that are
///   issued late).
enum class Posting : uint8_t { rank, lanes };

/// Groups in which only one lane posts collectives, so that the order of the collectives is the same on all ranks. The
/// groups have the same ranks as the groups of Axis::ep, Mesh::experts() and Axis::tp. The rank's thread posts in the
/// mesh's own groups at the same time. Axis::etp and NodeGroups need no such groups: the rank's thread posts nothing in
/// their groups while lanes may post.
struct LaneGroups {
  std::unique_ptr<ProcessGroup> ep, experts, tp;
};

class Mesh {
 public:
  /// Makes the groups, with LaneGroups only for Posting::lanes. Collective over `world`, which must outlive the mesh.
  /// Throws Error(usage) on all ranks if `sizes` are illegal (see Layout).
  Mesh(const ProcessGroup& world, const Sizes& sizes, const SharedPieces& shared = {}, Posting posting = Posting::rank);

  const ProcessGroup& world() const { return world_; }
  const Layout& layout() const { return layout_; }
  /// Returns this rank's group along `axis`, ordered by coordinate. It has one rank if the axis has size one.
  const ProcessGroup& operator[](Axis axis) const { return *axes_[base::ordinal(axis)]; }
  /// Returns the tp x cp ranks that share the micro-batches of this rank, ordered by t + tp * c (tp coordinate t, cp
  /// coordinate c).
  const ProcessGroup& tokens() const { return *tokens_; }
  /// Returns the ep x etp ranks that together have all experts of a layer, ordered by etp * p + j (ep coordinate p, etp
  /// coordinate j).
  const ProcessGroup& experts() const { return *experts_; }
  /// The next two functions return the two levels (inside a node, between nodes) of the ep group and of experts(). They
  /// return null if the group is on one node, or if its nodes have one rank each or different numbers of its ranks.
  /// Both functions return the same object if the two groups have the same ranks.
  const comm::NodeGroups* ep_nodes() const { return ep_nodes_.get(); }
  const comm::NodeGroups* experts_nodes() const {
    return size(Axis::etp) == 1 ? ep_nodes_.get() : experts_nodes_.get();
  }
  /// Returns the groups for collectives that lanes post; null with Posting::rank.
  const LaneGroups* lane_groups() const { return lane_groups_ ? &*lane_groups_ : nullptr; }
  /// Returns the windows of the ranks of the ep group, which all layers share. They have no memory until they are used.
  comm::Windows& ep_windows() const { return *ep_windows_; }
  /// Returns the first unfit ep group of the world; nullopt if there is none. The result is the same on all ranks.
  /// Takes time linear in the number of all ranks.
  std::optional<UnfitGroup> unfit_ep_group() const;
  /// Like unfit_ep_group(), for the groups of ep x etp ranks.
  std::optional<UnfitGroup> unfit_experts_group() const;
  /// Returns the group of the ranks over which the gradient of a parameter with this placement is summed, in ascending
  /// order. Placements with the same ranks share a group. Throws std::logic_error if the mesh has no group of these
  /// ranks, for example because it was made without the SharedPieces.
  const ProcessGroup& reducers(const Placement& placement) const;
  int size(Axis axis) const { return layout_.size(axis); }
  int coordinate(Axis axis) const { return layout_.coordinate(axis, world_.rank()); }

 private:
  std::unique_ptr<ProcessGroup> group_of(const std::vector<int>& ranks, comm::TrafficClass traffic, std::string name,
                                         Axis like) const;
  struct Reducers {
    Placement placement;  // a placement for which gradients are summed over `group`
    std::unique_ptr<ProcessGroup> group;
  };
  const ProcessGroup& world_;
  Layout layout_;
  std::array<std::unique_ptr<ProcessGroup>, axis_count> axes_;
  std::unique_ptr<ProcessGroup> tokens_, experts_;
  std::optional<LaneGroups> lane_groups_;
  std::unique_ptr<comm::NodeGroups> ep_nodes_, experts_nodes_;
  std::unique_ptr<comm::Windows> ep_windows_;
  std::vector<Reducers> reducers_;
};

}  // namespace hexad::mesh
