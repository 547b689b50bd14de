// Rules for memory, GPUs and clocks.
#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "framework/base/units.h"
#include "tools/check_cluster/findings.h"
#include "tools/check_cluster/robust.h"

namespace hexad::check_cluster {

using base::ExitCode;
using base::human_bytes;

void judge_memory(std::vector<Finding>& findings, const std::vector<RankReport>& ranks, const Expectations& expected) {
  std::map<int, std::vector<const RankReport*>> nodes;
  for (const RankReport& rank : ranks) nodes[rank.node].push_back(&rank);
  std::vector<const RankReport*> firsts;
  std::vector<double> inverse;  // inverse of the memory, because slow_values() finds large values
  for (const auto& [node, there] : nodes) {
    const auto available = static_cast<double>(there.front()->facts.memory_available);
    const double share = available / static_cast<double>(there.size());
    if (!expected.card && share < expected.memory_bytes)
      findings.push_back({.code = ExitCode::resource,
                          .kind = "memory",
                          .message = fmt::format("node {} has {} of free memory for {}, expected at least {}; free "
                                                 "memory on this node, or choose a layout "
                                                 "that needs less memory",
                                                 there.front()->facts.host, human_bytes(share),
                                                 there.size() == 1 ? std::string("its only rank")
                                                                   : base::cat("each of ", there.size(), " ranks"),
                                                 human_bytes(expected.memory_bytes))});
    firsts.push_back(there.front());
    inverse.push_back(1 / (available + 1));
  }
  for (const Slow& little : slow_values(inverse, {.ratio = little_memory_ratio}))
    findings.push_back({.code = ExitCode::done,
                        .kind = "memory",
                        .message = fmt::format("node {} has {} of free memory, {:.1f} times less than other nodes ({})",
                                               firsts[little.index]->facts.host, human_bytes(1 / inverse[little.index]),
                                               little.times, human_bytes(1 / little.reference))});
}

namespace {

// Judges GPUs that several ranks share, and the memory of all GPUs.
void judge_shared_cards(std::vector<Finding>& findings, const std::vector<RankReport>& ranks,
                        const Expectations& expected) {
  std::map<std::string, std::vector<const RankReport*>> users;  // ranks of each GPU
  for (const RankReport& rank : ranks)
    if (!rank.facts.card.empty() && !rank.facts.card_id.empty()) users[rank.facts.card_id].push_back(&rank);
  for (const auto& [id, there] : users) {
    std::vector<int> numbers;
    int64_t available = there.front()->facts.card_memory;
    for (const RankReport* rank : there) {
      numbers.push_back(rank->rank);
      available = std::min(available, rank->facts.card_memory);
    }
    const std::string& node = there.front()->facts.host;
    const double share = static_cast<double>(available) / static_cast<double>(there.size());
    if (expected.card && share < expected.memory_bytes)
      findings.push_back({.code = ExitCode::resource,
                          .kind = "memory",
                          .message = fmt::format(
                              "the GPU of {} of node {} has {} of free memory per rank, expected at least {}; start "
                              "fewer ranks on this GPU or free its memory",
                              names_of(numbers), node, human_bytes(share), human_bytes(expected.memory_bytes))});
    if (there.size() > 1)
      findings.push_back(
          {.code = ExitCode::done,
           .kind = "gpu",
           .message = fmt::format("{} of node {} share one GPU; start at most as many ranks on a node as "
                                  "the node has GPUs, and let each rank see its own GPU",
                                  names_of(numbers), node)});
  }
}

}  // namespace

void judge_cards(std::vector<Finding>& findings, const std::vector<RankReport>& ranks, const Expectations& expected) {
  judge_shared_cards(findings, ranks, expected);
  std::vector<int> without;
  std::map<std::string, std::vector<int>> cards;
  for (const RankReport& rank : ranks) {
    if (rank.facts.card.empty())
      without.push_back(rank.rank);
    else
      cards[rank.facts.card].push_back(rank.rank);
  }
  if (!without.empty() && (expected.card || !cards.empty())) {
    const RankReport& first = ranks.at(without.front());
    findings.push_back(
        {.code = expected.card ? static_cast<ExitCode>(first.facts.card_exit_code) : ExitCode::done,
         .kind = "gpu",
         .message = fmt::format("no GPU for {}; {}: {}", names_of(without), name_of(first), first.facts.card_error)});
  }
  if (cards.size() < 2) return;
  std::string list;
  for (const auto& [card, with] : cards)
    list += fmt::format("{} {} for {}", list.empty() ? ":" : ";", card, names_of(with));
  findings.push_back({.code = ExitCode::done, .kind = "gpu", .message = fmt::format("GPUs differ{}", list)});
}

void judge_clocks(std::vector<Finding>& findings, const std::vector<RankReport>& ranks) {
  for (const RankReport& rank : ranks) {
    if (!rank.clock_offset || std::abs(*rank.clock_offset) - rank.clock_error < largest_clock_offset) continue;
    findings.push_back(
        {.code = ExitCode::done,
         .kind = "clock",
         .message = fmt::format(
             "the clock of node {} is {} {} that of node {}, expected a difference below 1 s; set the clocks by NTP",
             rank.facts.host, base::precise_duration(std::abs(*rank.clock_offset)),
             *rank.clock_offset > 0 ? "ahead of" : "behind", ranks.front().facts.host)});
  }
}

}  // namespace hexad::check_cluster
