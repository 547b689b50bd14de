#include "tools/plan/rank_graphs.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>

namespace hexad::plan {
namespace {

constexpr std::array<std::string_view, 9> group_names{
    "", "ep", "etp", "tp", "experts", "ep_inside", "ep_across", "experts_inside", "experts_across"};

int64_t number_of(const std::string& group) {
  const auto at = std::find(group_names.begin(), group_names.end(), group);
  base::require(at != group_names.end(), "[schedule] group '", group,
                "' is unknown; expected a name such as ep, etp or tp");
  return at - group_names.begin();
}

std::vector<int64_t> encoded(const schedule::TaskGraph& graph) {
  std::vector<int64_t> out;
  for (const schedule::Task& task : graph.tasks()) {
    const schedule::Cost& c = task.spec.cost;
    for (const int64_t field :
         {static_cast<int64_t>(task.spec.lane), static_cast<int64_t>(task.spec.kind), std::bit_cast<int64_t>(c.flops),
          c.products[0], c.products[1], c.products[2], static_cast<int64_t>(c.dense), std::bit_cast<int64_t>(c.share),
          c.wire_bytes, c.received_bytes, c.copy_bytes, number_of(c.group), static_cast<int64_t>(c.group_size),
          static_cast<int64_t>(c.crosses_nodes), static_cast<int64_t>(task.after.size()),
          static_cast<int64_t>(c.transfers.size())})
      out.push_back(field);
    out.insert(out.end(), task.after.begin(), task.after.end());
    for (const schedule::Transfer& t : c.transfers)
      out.insert(out.end(), {static_cast<int64_t>(t.kind), t.wire_bytes, t.times, number_of(t.group),
                             static_cast<int64_t>(t.group_size), static_cast<int64_t>(t.crosses_nodes)});
  }
  return out;
}

schedule::TaskGraph decoded(std::span<const int64_t> from) {
  schedule::TaskGraph graph;
  for (auto at = from.begin(); at != from.end();) {
    schedule::TaskSpec spec;
    spec.lane = static_cast<schedule::Lane>(*at++);
    spec.kind = static_cast<schedule::TaskKind>(*at++);
    spec.cost.flops = std::bit_cast<double>(*at++);
    for (int64_t& count : spec.cost.products) count = *at++;
    spec.cost.dense = *at++ != 0;
    spec.cost.share = std::bit_cast<double>(*at++);
    spec.cost.wire_bytes = *at++, spec.cost.received_bytes = *at++, spec.cost.copy_bytes = *at++;
    spec.cost.group = group_names[*at++];
    spec.cost.group_size = static_cast<int>(*at++);
    spec.cost.crosses_nodes = *at++ != 0;
    const int64_t count = *at++, transfers = *at++;
    std::vector<schedule::TaskId> after(at, at + count);
    at += count;
    for (int64_t i = 0; i < transfers; ++i) {
      schedule::Transfer& t = spec.cost.transfers.emplace_back();
      t.kind = static_cast<schedule::TaskKind>(*at++);
      t.wire_bytes = *at++, t.times = *at++;
      t.group = group_names[*at++];
      t.group_size = static_cast<int>(*at++);
      t.crosses_nodes = *at++ != 0;
    }
    graph.add(std::move(spec), std::move(after), [](device::Stream&) { return device::Event{}; });
  }
  return graph;
}

}  // namespace

std::vector<schedule::TaskGraph> graphs_of_all(const schedule::TaskGraph& mine, const comm::ProcessGroup& group,
                                               device::Device device) {
  std::vector<int64_t> own = encoded(mine);
  const auto length = static_cast<int64_t>(own.size());
  const std::vector<int64_t> lengths = group.all_gather_values(std::span(&length, 1), device);
  const size_t longest = *std::max_element(lengths.begin(), lengths.end());
  std::vector<schedule::TaskGraph> graphs(lengths.size());
  if (longest == 0) return graphs;
  own.resize(longest);
  const std::vector<int64_t> all = group.all_gather_values(own, device);
  for (size_t r = 0; r < lengths.size(); ++r) graphs[r] = decoded(std::span(all).subspan(r * longest, lengths[r]));
  return graphs;
}

Meeting meeting_of(const mesh::Mesh& mesh) {
  const mesh::Layout& layout = mesh.layout();
  const int rank = mesh.world().rank();
  // True if `ranks` contains the whole tp group and the whole ep x etp group of each of its members.
  const auto closed = [&](std::vector<int> ranks) {
    std::sort(ranks.begin(), ranks.end());
    const auto inside = [&](const std::vector<int>& others) {
      return std::ranges::all_of(others, [&](int r) { return std::binary_search(ranks.begin(), ranks.end(), r); });
    };
    return std::ranges::all_of(
        ranks, [&](int r) { return inside(layout.members(base::Axis::tp, r)) && inside(layout.expert_sharers(r)); });
  };
  std::vector<int> experts = layout.expert_sharers(rank), tensor = layout.members(base::Axis::tp, rank);
  if (closed(experts)) return {&mesh.experts(), std::move(experts)};
  if (closed(tensor)) return {&mesh[base::Axis::tp], std::move(tensor)};
  std::vector<int> all(layout.world());
  std::iota(all.begin(), all.end(), 0);
  return {&mesh.world(), std::move(all)};
}

schedule::RankGroups groups_among(std::span<const int> ranks, const schedule::RankGroups& of_all) {
  schedule::RankGroups out;
  for (const auto& [name, numbers] : of_all)
    for (const int rank : ranks) out[name].push_back(numbers[rank]);
  return out;
}

int64_t max_ranks_of_node(std::span<const int> node_of_rank) {
  std::map<int, int64_t> ranks;
  int64_t most = 0;
  for (const int node : node_of_rank) most = std::max(most, ++ranks[node]);
  return most;
}

schedule::RankGroups rank_groups(const mesh::Layout& layout, std::span<const int> node_of_rank) {
  schedule::RankGroups out;
  const auto along = [&](base::Axis axis) { return [&layout, axis](int rank) { return layout.members(axis, rank); }; };
  const auto list = [&](const std::string& name) -> std::vector<int>& {
    out[name].resize(layout.world());
    return out[name];
  };
  const auto add = [&](const std::string& name, const auto& group_of) {
    std::vector<int>& numbers = list(name);
    mesh::for_each_group(layout.world(), group_of, [&](const std::vector<int>& ranks) {
      for (const int rank : ranks) numbers[rank] = ranks.front();
    });
  };
  const auto add_levels = [&](const std::string& name, const auto& group_of) {
    std::vector<int>&inside = list(name + "_inside"), &across = list(name + "_across");
    mesh::for_each_group(layout.world(), group_of, [&](const std::vector<int>& ranks) {
      std::vector<int> nodes;
      for (const int rank : ranks) nodes.push_back(node_of_rank[rank]);
      const comm::NodeGrid grid(nodes);
      for (size_t i = 0; i < ranks.size(); ++i) {
        const auto mine = static_cast<int>(i);
        const auto number = [&](int node, int place) { return ranks[grid.rank(node, place)]; };
        // Without two levels, each group "_inside" and "_across" consists of one rank.
        inside[ranks[i]] = grid.two_levels() ? number(grid.node(mine), 0) : ranks[i];
        across[ranks[i]] = grid.two_levels() ? number(0, grid.place(mine)) : ranks[i];
      }
    });
  };
  const auto experts = [&](int rank) { return layout.expert_sharers(rank); };
  add("etp", along(base::Axis::etp));
  add("tp", along(base::Axis::tp));
  add("ep", along(base::Axis::ep));
  add("experts", experts);
  add_levels("ep", along(base::Axis::ep));
  add_levels("experts", experts);
  out[schedule::node_group].assign(node_of_rank.begin(), node_of_rank.end());
  return out;
}

}  // namespace hexad::plan
