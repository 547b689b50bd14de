#include <algorithm>
#include <map>

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

void judge_node(std::vector<Finding>& findings, const Ranks& ranks) {
  std::map<int, std::vector<int>> ranks_of_core;
  for (const RankReport* rank : ranks)
    for (const int core : rank->facts.cores) ranks_of_core[core].push_back(rank->rank);
  std::map<std::vector<int>, std::vector<int>> crowded;  // ranks with less than one core each, by their cores
  const auto add = [&](std::string message) {
    findings.push_back({.code = base::ExitCode::done, .kind = "cores", .message = std::move(message)});
  };
  for (const RankReport* rank : ranks) {
    if (rank->facts.cores.empty()) continue;
    double share = 0;  // each core counts 1/k if k ranks share it
    for (const int core : rank->facts.cores) share += 1.0 / static_cast<double>(ranks_of_core[core].size());
    if (share < 1 - 1e-9) crowded[rank->facts.cores].push_back(rank->rank);
    const double most = std::max(1.0, share);
    if (rank->facts.threads > most + 1e-9)
      add(fmt::format("{} has {}, but its share is only {:.3g} cores; set train.threads={}", name_of(*rank),
                      base::counted(rank->facts.threads, "kernel thread"), share, static_cast<int>(most + 1e-9)));
  }
  const std::string& node = ranks.front()->facts.host;
  for (const auto& [cores, sharing] : crowded)
    add(
        fmt::format("{} of node {} must share {} and wait for each other; bind each rank to its own core "
                    "(mpirun --bind-to core, srun --cpu-bind=cores) or start fewer ranks",
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
