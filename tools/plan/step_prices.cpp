#include "tools/plan/step_prices.h"

#include <algorithm>
#include <map>
#include <utility>

#include "framework/base/counted.h"
#include "framework/base/enum_names.h"
#include "framework/base/error.h"
#include "tools/plan/cluster_error.h"
#include "tools/plan/number.h"

namespace hexad::plan {
namespace {

using device::CommunicationWork;
using schedule::Lane;

// Ratio of the FLOPs of attention's backward to twice the FLOPs of forward, if heads of keys and values have the same
// size. Backward computes the scores again (Dao et al. 2022).
constexpr double recomputed_scores = 1.25;

// Returns the share of the FLOPs that remains if the padding of values is not computed. Forward has one product with
// keys and one with values. Backward has three products with keys and two with values.
double share_without_padding(const device::AttentionWork& w) {
  const double keys = w.backward ? 0.6 : 0.5;
  return keys + (1 - keys) * static_cast<double>(w.value_size) / static_cast<double>(w.head_size);
}

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};

CopyKind kind_of_copy(device::CopyWork::Kind kind) {
  switch (kind) {
    case device::CopyWork::Kind::offload:
    case device::CopyWork::Kind::to_host:
      return CopyKind::offload;
    case device::CopyWork::Kind::restore:
    case device::CopyWork::Kind::from_host:
      return CopyKind::restore;
    case device::CopyWork::Kind::device:
      break;
  }
  return CopyKind::copy;
}

// Returns the collective by which an operation of all ranks of a group is priced. A broadcast is priced like an
// all-gather of its bytes.
Collective collective_of(std::string_view operation) {
  if (operation == "broadcast") return Collective::all_gather;
  const std::optional<Collective> known = base::enum_named<Collective>(operation);
  if (!known || *known == Collective::send)
    base::fail_invariant(base::cat("[plan] a rank issues the collective ", operation,
                                   ", which has no price; expected all_to_all, all_gather, reduce_scatter, all_reduce "
                                   "or broadcast"));
  return *known;
}

// True if all ranks of the group take part in the communication.
bool is_collective(const device::Issue& issue) {
  return std::get<CommunicationWork>(issue.work).peer < 0 || issue.name == "broadcast";
}

}  // namespace

StepPrices::StepPrices(const Cluster& cluster, int world) : prices_(cluster) {
  const int64_t ranks_per_node = prices_.ranks_per_node();
  if (const int64_t ranks = prices_.nodes() * ranks_per_node; world > ranks)
    fail_cluster(cluster.machine ? "machine.nodes" : "measured.nodes", "the cluster has ", base::counted(ranks, "rank"),
                 " (", base::counted(prices_.nodes(), "node"), " of ", ranks_per_node, "), fewer than the ", world,
                 " of the layout; expected a layout of at most ", base::counted(ranks, "rank"));
  for (int rank = 0; rank < world; ++rank) node_of_rank_.push_back(static_cast<int>(rank / ranks_per_node));
}

// Assumes that all groups with the same name communicate at the same time. The ranks of a node then share its network.
GroupPlace StepPrices::place_of(const std::vector<int>& ranks, int rank) const {
  const int64_t joined = nodes_of_domain();
  const int mine = node_of_rank_[rank];
  const int64_t domain_begin = mine / joined * joined, domain_end = domain_begin + joined;
  std::vector<int> nodes(ranks.size());
  int64_t on_my_node = 0, in_my_domain = 0;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const int node = nodes[i] = node_of_rank_[ranks[i]];
    on_my_node += node == mine;
    in_my_domain += node >= domain_begin && node < domain_end;
  }
  if (!std::ranges::is_sorted(nodes)) std::ranges::sort(nodes);
  const int64_t span = nodes.back() - nodes.front() + 1;
  const auto size = std::ssize(ranks);
  int64_t node_count = 0, uneven_nodes = 0;
  for (auto at = nodes.begin(); at != nodes.end(); ++node_count) {
    const auto end = std::upper_bound(at, nodes.end(), *at);
    if (end - at != on_my_node) uneven_nodes = 1;
    at = end;
  }
  if (uneven_nodes > 0) uneven_nodes = node_count, node_count = size, on_my_node = 1;
  const auto ranks_of_node = std::min<int64_t>(prices_.ranks_per_node(), std::ssize(node_of_rank_));
  return {.ranks = size,
          .nodes = node_count,
          .ranks_per_node = on_my_node,
          .groups = std::max<int64_t>(1, ranks_of_node / on_my_node),
          .ranks_in_domain = in_my_domain,
          .node_span = span,
          .uneven_nodes = uneven_nodes};
}

double seconds_of(const device::AttentionWork& w, const Prices& prices) {
  return prices.attention({.dtype = w.dtype,
                           .pass = w.backward ? AttentionPass::backward : AttentionPass::forward,
                           .flops = w.backward ? recomputed_scores * w.flops : w.flops,
                           .sequence = static_cast<double>(w.keys),
                           .head_dim = static_cast<double>(w.head_size),
                           .heads = static_cast<double>(std::max<int64_t>(1, w.heads)),
                           .without_padding = share_without_padding(w)});
}

RecordPrices::RecordPrices(const StepPrices& prices, const StepRecord& record)
    : prices_(prices), record_(record), places_(record.groups.size()) {
  for (const device::Issue& issue : record.issues)
    if (const auto* work = std::get_if<CommunicationWork>(&issue.work); work && is_collective(issue)) {
      const device::IssuedGroup& group = record.groups[work->group];
      std::optional<GroupPlace>& place = places_[work->group];
      if (!place) place = prices.place_of(group.ranks, group.ranks[group.rank]);
    }
}

std::vector<std::string> RecordPrices::uneven_groups() const {
  std::vector<std::string> names;
  for (size_t g = 0; g < places_.size(); ++g)
    if (places_[g] && places_[g]->uneven_nodes > 0)
      names.push_back(base::cat(record_.groups[g].name, " (", places_[g]->ranks, " ranks on ", places_[g]->uneven_nodes,
                                " nodes)"));
  return names;
}

void RecordPrices::shrink_groups(comm::TrafficClass traffic, int64_t times) {
  for (size_t g = 0; g < places_.size(); ++g) {
    if (!places_[g] || record_.groups[g].traffic != static_cast<int>(traffic)) continue;
    GroupPlace& p = *places_[g];
    const int64_t ranks = std::max<int64_t>(1, p.ranks / times), same_node = std::min(p.ranks_per_node, ranks);
    // Uneven groups are priced as if each rank had its own node, as in StepPrices::place_of().
    const int64_t on_node = ranks % same_node == 0 ? same_node : 1;
    p.groups = p.groups * p.ranks_per_node / on_node;
    p.ranks_in_domain = std::min(ranks, std::max(on_node, p.ranks_in_domain / times));
    p.ranks = ranks, p.ranks_per_node = on_node, p.nodes = ranks / on_node;
    if (p.nodes == 1) p.node_span = 1;
  }
}

// Returns the placement of the ranks that take part in a communication, as seen by this rank.
GroupPlace RecordPrices::place_of(const device::Issue& issue) const {
  const auto& work = std::get<CommunicationWork>(issue.work);
  if (is_collective(issue)) return *places_[work.group];
  const device::IssuedGroup& group = record_.groups[work.group];
  const int me = group.ranks[group.rank];
  return prices_.place_of({me, group.ranks[work.peer]}, me);
}

double RecordPrices::communication(const device::Issue& issue, const CommunicationWork& work) const {
  const auto bytes = static_cast<double>(std::max(work.sent, work.received));
  if (issue.name == "barrier" || bytes == 0) return 0;
  return prices_.prices().collective(is_collective(issue) ? collective_of(issue.name) : Collective::send,
                                     place_of(issue), bytes);
}

double RecordPrices::sent_over_network(const device::Issue& issue) const {
  const auto& work = std::get<CommunicationWork>(issue.work);
  if (work.sent == 0) return 0;
  const GroupPlace place = place_of(issue);
  const auto sent = static_cast<double>(work.sent);
  if (place.ranks_in_domain == place.ranks) return 0;
  if (issue.name == "all_to_all")
    return sent * static_cast<double>(place.ranks - place.ranks_in_domain) / static_cast<double>(place.ranks - 1);
  // A ring leaves a domain through only one of the ranks inside (Prices::collective).
  return sent / static_cast<double>(place.ranks_in_domain);
}

double RecordPrices::seconds(const device::Issue& issue, const device::Work& work) const {
  const Prices& prices = prices_.prices();
  const double handoff = issue.lane == device::Lane::compute ? 0 : prices.handoff();
  if (const auto* message = std::get_if<CommunicationWork>(&work)) return handoff + communication(issue, *message);
  return handoff + prices.operation() +
         std::visit(Overloaded{
                        [&](const device::ProductWork& w) {
                          const double rows = number(w.rows), groups = number(std::max<int64_t>(1, w.groups));
                          return prices.product({.dtype = w.dtype,
                                                 .pass = w.pass,
                                                 .rows = rows,
                                                 .inputs = number(w.inputs),
                                                 .outputs = number(w.outputs),
                                                 .groups = groups,
                                                 .extra_bytes = number(w.extra_bytes)},
                                                std::max(number(w.largest), rows / groups)) /
                                 prices.speed_of_share(w.share, w.dtype);
                        },
                        [&](const device::AttentionWork& w) { return seconds_of(w, prices); },
                        [&](const device::MemoryWork& w) {
                          return prices.kernel(class_of(issue.family, issue.name), w.dtype, number(w.bytes));
                        },
                        [&](const device::CopyWork& w) { return prices.copy(kind_of_copy(w.kind), number(w.bytes)); },
                        [&](const CommunicationWork& w) { return communication(issue, w); },
                    },
                    work);
}

int64_t StepPrices::nodes_of_domain() const {
  return std::max<int64_t>(1, prices_.domain() / prices_.ranks_per_node());
}

std::vector<int> StepPrices::domain_of_rank() const {
  std::vector<int> domains;
  for (const int node : node_of_rank_) domains.push_back(static_cast<int>(node / nodes_of_domain()));
  return domains;
}

int64_t StepPrices::ranks_of_fullest_node() const {
  std::map<int, int64_t> ranks;
  int64_t most = 1;
  for (const int node : node_of_rank_) most = std::max(most, ++ranks[node]);
  return most;
}

StepContention StepPrices::contention(const comm::Priorities& priorities, int64_t ranks_of_node) const {
  return {.compute_beside_intra = prices_.slowdown(Lane::compute, {Lane::intra}),
          .compute_beside_inter = prices_.slowdown(Lane::compute, {Lane::inter}),
          .compute_beside_copy = prices_.slowdown(Lane::compute, {Lane::copy}),
          .intra_beside_compute = prices_.slowdown(Lane::intra, {Lane::compute}),
          .inter_beside_compute = prices_.slowdown(Lane::inter, {Lane::compute}),
          .priority = priorities.of_class,
          .cores = prices_.cores(ranks_of_node),
          .issuing = prices_.issuing(),
          .nodes_of_domain = static_cast<int>(nodes_of_domain())};
}

}  // namespace hexad::plan
