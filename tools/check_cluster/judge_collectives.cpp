#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "framework/base/units.h"
#include "tools/check_cluster/findings.h"
#include "tools/check_cluster/robust.h"

namespace hexad::check_cluster {

void judge_collectives(std::vector<Finding>& findings, const std::vector<RankReport>& ranks) {
  // Duration of each group on its slowest rank: by kind of group, operation and number of ranks, then by lowest rank.
  std::map<std::tuple<std::string, std::string, int>, std::map<int, double>> kinds;
  for (const RankReport& rank : ranks)
    for (const CollectiveFigure& c : rank.collectives) {
      double& slowest = kinds[{c.group, c.operation, c.ranks}][c.first];
      slowest = std::max(slowest, c.seconds);
    }
  for (const auto& [kind, groups] : kinds) {
    const auto& [group, operation, size] = kind;
    std::vector<int> firsts;
    std::vector<double> durations;
    for (const auto& [first, seconds] : groups) firsts.push_back(first), durations.push_back(seconds);
    for (const Slow& slow : slow_values(durations, {.ratio = slow_link_ratio}))
      findings.push_back(
          {.code = base::ExitCode::done,
           .kind = "collective",
           .message = fmt::format(
               "{} of the group {} of {} ranks that begins with {} takes {}, {:.1f} times as long as other groups ({})",
               operation, group, size, name_of(ranks.at(firsts[slow.index])),
               base::precise_duration(durations[slow.index]), slow.times, base::precise_duration(slow.reference))});
  }
}

}  // namespace hexad::check_cluster
