#include <algorithm>

#include "framework/base/counted.h"
#include "tools/check_cluster/findings.h"

namespace hexad::check_cluster {

using base::cat;
using base::ExitCode;

std::vector<Finding> judge(const std::vector<RankReport>& ranks, const Expectations& expected) {
  std::vector<Finding> findings;
  judge_versions(findings, ranks);
  judge_cards(findings, ranks, expected);
  judge_card_states(findings, ranks, expected);
  judge_memory(findings, ranks, expected);
  judge_folder(findings, ranks);
  judge_cores(findings, ranks);
  judge_rates(findings, ranks);
  judge_links(findings, ranks);
  judge_collectives(findings, ranks);
  judge_clocks(findings, ranks);
  std::stable_partition(findings.begin(), findings.end(), [](const Finding& f) { return f.code != ExitCode::done; });
  return findings;
}

ExitCode exit_code_of(const std::vector<Finding>& findings) {
  ExitCode code = ExitCode::done;
  for (const Finding& f : findings)
    if (f.code != ExitCode::done && (code == ExitCode::done || f.code < code)) code = f.code;
  return code;
}

std::string name_of(const RankReport& rank) { return cat("rank ", rank.rank, " (node ", rank.facts.host, ")"); }

std::string names_of(const std::vector<int>& ranks) {
  constexpr size_t most = 8;
  std::string text = base::plural(static_cast<int64_t>(ranks.size()), "rank");
  const size_t shown = std::min(most, ranks.size());
  for (size_t i = 0; i < shown; ++i) {
    const bool last = i + 1 == ranks.size();
    text += cat(i == 0 ? " " : last ? " and " : ", ", ranks[i]);
  }
  if (shown < ranks.size()) text += cat(" and ", ranks.size() - shown, " more");
  return text;
}

}  // namespace hexad::check_cluster
