#include "tools/plan/step_prices.h"

#include <algorithm>
#include <utility>

namespace hexad::plan {
namespace {

using device::CommunicationWork;
using schedule::Lane;

// Operations of attention's backward beside twice those of forward, because it computes the scores again (Dao et al.
// 2022).
constexpr double recomputed_scores = 1.25;

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};

CopyKind kind_of(device::CopyWork::Kind kind) {
  switch (kind) {
    case device::CopyWork::Kind::offload:
      return CopyKind::offload;
    case device::CopyWork::Kind::restore:
      return CopyKind::restore;
    default:
      return CopyKind::copy;
  }
}

// Collective with the cost of an operation: a broadcast is priced as an all-gather of its bytes.
Collective collective_of(std::string_view operation) {
  if (operation == "all_reduce") return Collective::all_reduce;
  if (operation == "reduce_scatter") return Collective::reduce_scatter;
  if (operation == "all_to_all") return Collective::all_to_all;
  if (operation == "send") return Collective::send;
  return Collective::all_gather;
}

}  // namespace

StepPrices::StepPrices(const Cluster& cluster, int world) : prices_(cluster) {
  const int64_t ranks_per_node = prices_.ranks_per_node();
  if (const int64_t ranks = prices_.nodes() * ranks_per_node; world > ranks)
    base::fail(base::ExitCode::usage, "the cluster has ", ranks, " ranks (", prices_.nodes(), " nodes of ",
               ranks_per_node, "), which is less than the ", world, " of the layout; legal here: at most ", ranks);
  for (int rank = 0; rank < world; ++rank) node_of_rank_.push_back(static_cast<int>(rank / ranks_per_node));
}

// All groups of a name communicate at the same time, so the ranks of a node share its network.
GroupPlace StepPrices::place_of(const device::IssuedGroup& group) const {
  const int mine = node_of_rank_[group.ranks[group.rank]];
  int64_t on_my_node = 0, nodes = 0, last = -1;
  for (const int rank : group.ranks) {
    const int node = node_of_rank_[rank];
    on_my_node += node == mine;
    nodes += std::exchange(last, node) != node;
  }
  const auto ranks = static_cast<int64_t>(group.ranks.size());
  if (nodes * on_my_node != ranks) on_my_node = 1, nodes = ranks;  // uneven: as if each rank had its node
  const auto ranks_of_node = std::min<int64_t>(prices_.ranks_per_node(), std::ssize(node_of_rank_));
  return {.ranks = ranks,
          .nodes = nodes,
          .ranks_per_node = on_my_node,
          .groups = std::max<int64_t>(1, ranks_of_node / on_my_node)};
}

double StepPrices::communication(const StepRecord& record, const device::Issue& issue) const {
  const auto& work = std::get<CommunicationWork>(issue.work);
  const device::IssuedGroup& group = record.groups[work.group];
  const auto bytes = static_cast<double>(std::max(work.sent, work.received));
  if (issue.name == "barrier" || bytes == 0) return 0;
  if (work.peer < 0 || issue.name == "broadcast")
    return prices_.collective(collective_of(issue.name), place_of(group), bytes);
  const bool same_node = node_of_rank_[group.ranks[work.peer]] == node_of_rank_[group.ranks[group.rank]];
  const GroupPlace pair{.ranks = 2,
                        .nodes = same_node ? 1 : 2,
                        .ranks_per_node = same_node ? 2 : 1,
                        .groups = std::min<int64_t>(prices_.ranks_per_node(), std::ssize(node_of_rank_))};
  return prices_.collective(Collective::send, pair, bytes);
}

double StepPrices::seconds(const StepRecord& record, const device::Issue& issue) const {
  const auto number = [](int64_t n) { return static_cast<double>(n); };
  return std::visit(
      Overloaded{
          [&](const device::ProductWork& w) {
            return prices_.product({.dtype = w.dtype,
                                    .pass = w.pass,
                                    .rows = number(w.rows),
                                    .inputs = number(w.inputs),
                                    .outputs = number(w.outputs),
                                    .groups = number(std::max<int64_t>(1, w.groups)),
                                    .extra_bytes = number(w.extra_bytes)});
          },
          [&](const device::AttentionWork& w) {
            return prices_.attention({.dtype = w.dtype,
                                      .pass = w.backward ? AttentionPass::backward : AttentionPass::forward,
                                      .flops = w.backward ? recomputed_scores * w.flops : w.flops,
                                      .sequence = number(w.keys),
                                      .head_dim = number(w.head_size)});
          },
          [&](const device::MemoryWork& w) { return prices_.memory_bound(number(w.bytes)); },
          [&](const device::CopyWork& w) { return prices_.copy(kind_of(w.kind), number(w.bytes)); },
          [&](const CommunicationWork&) { return communication(record, issue); },
      },
      issue.work);
}

StepContention StepPrices::contention(bool priorities) const {
  return {.compute_beside_intra = prices_.slowdown(Lane::compute, {Lane::intra}),
          .compute_beside_inter = prices_.slowdown(Lane::compute, {Lane::inter}),
          .intra_beside_compute = prices_.slowdown(Lane::intra, {Lane::compute}),
          .inter_beside_compute = prices_.slowdown(Lane::inter, {Lane::compute}),
          .priorities = priorities};
}

}  // namespace hexad::plan
