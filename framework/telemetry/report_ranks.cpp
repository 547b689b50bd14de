#include "framework/telemetry/report_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "framework/base/counted.h"
#include "framework/base/median.h"

namespace hexad::telemetry {

namespace {

constexpr size_t max_rows = 8;

/// Times of one rank in the steps that list this rank among the slowest ranks.
struct Record {
  int rank = 0;
  size_t slowest = 0;  // number of steps in which this rank was the slowest
  std::vector<double> own, waited, over_median;
};

std::vector<Record> records(const MetricsHistory& history) {
  std::map<int, Record> by_rank;
  for (const StepMetrics& s : history.steps) {
    if (!s.ranks) continue;
    for (size_t i = 0; i < s.ranks->slowest.size(); ++i) {
      const RankTimes::Rank& r = s.ranks->slowest[i];
      Record& record = by_rank[r.rank];
      record.rank = r.rank;
      record.slowest += i == 0;
      record.own.push_back(r.own_seconds);
      record.waited.push_back(r.waited_seconds);
      if (s.ranks->own_seconds.median > 0) record.over_median.push_back(r.own_seconds / s.ranks->own_seconds.median);
    }
  }
  std::vector<Record> list;
  for (auto& [rank, record] : by_rank) list.push_back(std::move(record));
  std::ranges::stable_sort(list, std::greater{}, &Record::slowest);
  if (list.size() > max_rows) list.resize(max_rows);
  return list;
}

/// Returns the number of ranks in a step. Returns the smallest number that is consistent with the step's list of
/// slowest ranks if `parts` does not contain the number. A list that is not full contains all ranks.
int64_t ranks_of(const StepMetrics& step, const std::vector<ReportInputs::Part>& parts) {
  const auto part = std::find_if(parts.rbegin(), parts.rend(), [&](const auto& p) { return p.after < step.step; });
  if (part != parts.rend() && part->ranks > 0) return part->ranks;
  int64_t ranks = std::ssize(step.ranks->slowest);
  for (const RankTimes::Rank& r : step.ranks->slowest) ranks = std::max<int64_t>(ranks, r.rank + 1);
  return ranks;
}

/// Returns the number of steps with times of ranks in which `rank` participated.
int64_t steps_of(int rank, const MetricsHistory& history, const std::vector<ReportInputs::Part>& parts) {
  return std::ranges::count_if(history.steps,
                               [&](const StepMetrics& s) { return s.ranks && rank < ranks_of(s, parts); });
}

std::string milliseconds(const std::vector<double>& seconds) {
  return fmt::format("{:.2f} ms", 1e3 * base::lower_median(seconds));
}

}  // namespace

std::string ranks_block(const MetricsHistory& history, const std::vector<ReportInputs::Part>& parts) {
  const std::vector<Record> list = records(history);
  if (list.empty()) return "";
  std::string out =
      "<section class=\"card wide\"><h2>Slowest ranks</h2>\n<p>A rank's own work is the part of a step in which it did "
      "not wait in communication. Times are medians over the steps in which the rank was among the slowest. Only steps "
      "in which the rank took part are counted.</p>\n"
      "<table class=\"facts\"><thead><tr><th>Rank</th><th>Slowest in</th><th>Own work per step</th>"
      "<th>Relative to the ranks' median</th><th>Waiting per step</th></tr></thead><tbody>\n";
  for (const Record& r : list)
    out += fmt::format("<tr><td>{}</td><td>{} of {}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n", r.rank, r.slowest,
                       base::counted(steps_of(r.rank, history, parts), "step"), milliseconds(r.own),
                       r.over_median.empty() ? "" : fmt::format("{:.2f}×", base::lower_median(r.over_median)),
                       milliseconds(r.waited));
  return out + "</tbody></table></section>\n";
}

}  // namespace hexad::telemetry
