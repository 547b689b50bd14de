#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "framework/base/counted.h"
#include "tools/check_cluster/findings.h"

namespace hexad::check_cluster {
namespace {

using Ranks = std::vector<const RankReport*>;

std::string list_of(const std::vector<int>& cores) {
  std::string text = base::plural(static_cast<int64_t>(cores.size()), "core");
  for (size_t i = 0; i < cores.size(); ++i) text += base::cat(i == 0 ? " " : ", ", cores[i]);
  return text;
}

// Returns the physical cores on which a rank may run, each by its first processor, in ascending order.
std::vector<int> physical_cores(const RankFacts& facts) {
  std::set<int> cores;
  for (const int core : facts.cores) {
    const auto sibling = facts.hyperthreads.find(core);
    cores.insert(sibling == facts.hyperthreads.end() ? core : sibling->second);
  }
  return {cores.begin(), cores.end()};
}

// Returns the number of ranks of a node that may run on each core. `cores` has the cores of each rank.
std::map<int, int> users_of_cores(const std::vector<std::vector<int>>& cores) {
  std::map<int, int> users;
  for (const std::vector<int>& of_rank : cores)
    for (const int core : of_rank) ++users[core];
  return users;
}

// Returns a rank's share of its cores, in cores: a core counts 1/k if k ranks may run on this core.
double share_of_cores(const std::vector<int>& cores, const std::map<int, int>& users) {
  double share = 0;
  for (const int core : cores) share += 1.0 / users.at(core);
  return share;
}

void judge_node(std::vector<Finding>& findings, const Ranks& ranks) {
  std::vector<std::vector<int>> processors, physical;  // each rank's processors and physical cores
  for (const RankReport* rank : ranks) {
    processors.push_back(rank->facts.cores);
    physical.push_back(physical_cores(rank->facts));
  }
  const std::map<int, int> users = users_of_cores(processors), physical_users = users_of_cores(physical);
  // `crowded`: ranks with a share of less than one processor, by their processors. `crowded_hyperthreads`: other ranks
  // with a share of less than one physical core, by their physical cores.
  std::map<std::vector<int>, std::vector<int>> crowded, crowded_hyperthreads;
  const auto add = [&](std::string message) {
    findings.push_back({.code = base::ExitCode::done, .kind = "cores", .message = std::move(message)});
  };
  for (size_t i = 0; i < ranks.size(); ++i) {
    const RankReport* rank = ranks[i];
    if (rank->facts.cores.empty()) continue;
    const double share = share_of_cores(processors[i], users);
    if (share < 1 - 1e-9)
      crowded[processors[i]].push_back(rank->rank);
    else if (share_of_cores(physical[i], physical_users) < 1 - 1e-9)
      crowded_hyperthreads[physical[i]].push_back(rank->rank);
    const double most = std::max(1.0, share);
    if (rank->facts.threads > most + 1e-9)
      add(fmt::format("{} has {}, but its share of the cores is only {:.3g}; set train.threads={}", name_of(*rank),
                      base::counted(rank->facts.threads, "kernel thread"), share, static_cast<int>(most + 1e-9)));
  }
  const std::string& node = ranks.front()->facts.host;
  for (const auto& [cores, sharing] : crowded)
    add(
        fmt::format("{} of node {} must share {} and wait for each other; bind each rank to its own core "
                    "(mpirun --bind-to core, srun --cpu-bind=cores) or start fewer ranks",
                    names_of(sharing), node, list_of(cores)));
  for (const auto& [cores, sharing] : crowded_hyperthreads)
    add(
        fmt::format("{} of node {} run on hyperthreads of {} and slow each other down; bind each rank "
                    "to its own core (mpirun --bind-to core, srun --cpu-bind=cores) or start fewer ranks",
                    names_of(sharing), node, list_of(cores)));
  const double quota = ranks.front()->facts.core_quota;
  if (quota > 0 && quota < static_cast<double>(ranks.size()))
    add(fmt::format(
        "node {} has {}, but its control group limits them to the time of {:.3g} cores; request one core for each rank",
        node, base::counted(static_cast<int64_t>(ranks.size()), "rank"), quota));
}

}  // namespace

void judge_cores(std::vector<Finding>& findings, const std::vector<RankReport>& ranks) {
  std::map<int, Ranks> nodes;
  for (const RankReport& rank : ranks) nodes[rank.node].push_back(&rank);
  for (const auto& [node, there] : nodes) judge_node(findings, there);
  size_t fewest = ranks.size(), most = 0;
  for (const auto& [node, there] : nodes) fewest = std::min(fewest, there.size()), most = std::max(most, there.size());
  if (fewest < most)
    findings.push_back({.code = base::ExitCode::done,
                        .kind = "cores",
                        .message = fmt::format("nodes have {} to {} ranks; start the same number on each node, so that "
                                               "groups can be arranged by node",
                                               fewest, most)});
}

}  // namespace hexad::check_cluster
