#include "parallel/mesh/mesh.h"

#include <algorithm>

#include "framework/base/ordinal.h"

namespace hexad::mesh {
namespace {

using base::cat;
using comm::TrafficClass;

// Returns the traffic class of the groups along `axis`. For etp, it is tp, because the communication of etp also blocks
// computation. For edp, it is dp, because the gradients of experts are reduced like other gradients.
TrafficClass traffic_of(Axis axis) {
  constexpr TrafficClass classes[] = {TrafficClass::pp, TrafficClass::dp, TrafficClass::cp, TrafficClass::tp,
                                      TrafficClass::dp, TrafficClass::ep, TrafficClass::tp};
  return classes[base::ordinal(axis)];
}

// Returns the traffic class of the ranks that add their gradients of a piece. The class is dp, except for an embedding
// that the first and the last stage share. The reduction of this embedding has the class pp, because the other stage
// must continue before the reduction can end. Operations of a class may run one after the other. Ranks of a stage may
// wait for a reduction before they send to the next stage. In the class dp, the reduction of this embedding could
// therefore cause a deadlock.
TrafficClass traffic_of_reducers(const Placement& kind) {
  return std::ranges::find(kind.partial, Axis::pp) == kind.partial.end() ? TrafficClass::dp : TrafficClass::pp;
}

// Returns one placement for each kind of placement that parameters of a model may have.
std::vector<Placement> kinds_of(const Layout& layout, int rank, const SharedPieces& shared) {
  const int t = layout.coordinate(Axis::tp, rank), tp = layout.size(Axis::tp);
  std::vector<Placement> kinds{{.view = MeshView::dense},
                               {.view = MeshView::dense, .partial = {Axis::tp}},
                               {.view = MeshView::expert},
                               {.view = MeshView::expert, .partial = {Axis::etp}}};
  if (shared.tensor_pieces > 0) {
    const int pieces = shared.tensor_pieces;
    kinds.push_back(
        {.view = MeshView::dense, .shards = {{Axis::tp, 0, pieces, t * pieces / tp}}, .partial = {Axis::tp}});
  }
  if (shared.first_and_last) kinds.push_back({.view = MeshView::dense, .partial = {Axis::pp}});
  return kinds;
}

// Returns the first unfit group among the groups group_of(rank); nullopt if there is none.
template <class GroupOf>
std::optional<UnfitGroup> first_unfit(const ProcessGroup& world, const GroupOf& group_of) {
  std::optional<UnfitGroup> unfit;
  std::optional<bool> two_levels;
  for_each_group(world.size(), group_of, [&](const std::vector<int>& ranks) {
    if (unfit) return;
    std::vector<int> nodes;
    for (const int r : ranks) nodes.push_back(world.node_of_rank()[r]);
    const comm::NodeGrid grid(nodes);
    const bool unlike_others = two_levels.value_or(grid.two_levels()) != grid.two_levels();
    if (unlike_others || grid.places() == 0) unfit = UnfitGroup{ranks, unlike_others};
    two_levels = grid.two_levels();
  });
  return unfit;
}

}  // namespace

Mesh::Mesh(const ProcessGroup& world, const Sizes& sizes, const SharedPieces& shared, Posting posting)
    : world_(world), layout_(sizes, world.size()) {
  for (int a = 0; a < axis_count; ++a) {
    const Axis axis = static_cast<Axis>(a);
    axes_[a] = group_of(layout_.members(axis, world.rank()), traffic_of(axis), std::string(name_of(axis)), Axis::tp);
  }
  tokens_ = group_of(layout_.token_sharers(world.rank()), TrafficClass::cp, "tp x cp", Axis::cp);
  experts_ = group_of(layout_.expert_sharers(world.rank()), TrafficClass::ep, "ep x etp", Axis::ep);
  if (posting == Posting::lanes) {
    LaneGroups& lanes = lane_groups_.emplace();
    lanes.ep = (*this)[Axis::ep].duplicate("ep of lanes");
    lanes.experts = experts_->duplicate("ep x etp of lanes");
    lanes.tp = (*this)[Axis::tp].duplicate("tp of lanes");
  }
  ep_nodes_ = comm::split_by_node((*this)[Axis::ep]);
  if (size(Axis::etp) > 1) experts_nodes_ = comm::split_by_node(*experts_);
  ep_windows_ = std::make_unique<comm::Windows>((*this)[Axis::ep]);
  for (const Placement& kind : kinds_of(layout_, world.rank(), shared)) {
    std::string name = kind.view == MeshView::dense ? "dp x cp" : "edp";
    for (Axis axis : kind.partial) name += cat(" x ", name_of(axis));
    reducers_.push_back(
        {kind, world.subgroup(layout_.reducers(kind, world.rank()), traffic_of_reducers(kind), std::move(name))});
  }
}

// Makes a group of `ranks`. The new group is a duplicate of the group of axis `like` if that group has the same ranks
// (at least two) and the same traffic class. A layout is regular, so either all ranks make a duplicate or none does.
std::unique_ptr<ProcessGroup> Mesh::group_of(const std::vector<int>& ranks, TrafficClass traffic, std::string name,
                                             Axis like) const {
  const std::unique_ptr<ProcessGroup>& other = axes_[base::ordinal(like)];
  if (ranks.size() > 1 && other && other->traffic() == traffic && layout_.members(like, world_.rank()) == ranks)
    return other->duplicate(std::move(name));
  return world_.subgroup(ranks, traffic, std::move(name));
}

std::optional<UnfitGroup> Mesh::unfit_ep_group() const {
  return first_unfit(world_, [&](int rank) { return layout_.members(Axis::ep, rank); });
}

std::optional<UnfitGroup> Mesh::unfit_experts_group() const {
  return first_unfit(world_, [&](int rank) { return layout_.expert_sharers(rank); });
}

const ProcessGroup& Mesh::reducers(const Placement& placement) const {
  for (const Reducers& r : reducers_)
    if (layout_.same_reducers(r.placement, placement, world_.rank())) return *r.group;
  base::fail_invariant(base::cat("[mesh] none of the ", reducers_.size(), " groups of rank ", world_.rank(),
                                 " is for the ranks that share this parameter; expected a mesh with its SharedPieces"));
}

}  // namespace hexad::mesh
