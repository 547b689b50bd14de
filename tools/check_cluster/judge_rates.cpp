#include <fmt/format.h>

#include "framework/base/units.h"
#include "tools/check_cluster/findings.h"
#include "tools/check_cluster/robust.h"

namespace hexad::check_cluster {
namespace {

void name_slow(std::vector<Finding>& findings, const std::vector<RankReport>& ranks, double RankReport::*rate,
               std::string_view verb, std::string_view unit) {
  std::vector<double> durations;
  for (const RankReport& rank : ranks) durations.push_back(1 / rank.*rate);
  for (const Slow& slow : slow_values(durations, {.ratio = slow_rank_ratio}))
    findings.push_back(
        {.code = base::ExitCode::done,
         .kind = "rank",
         .message = fmt::format("{} {} {}, {:.1f} times slower than the other ranks ({})", name_of(ranks[slow.index]),
                                verb, base::human_quantity(1 / durations[slow.index], unit), slow.times,
                                base::human_quantity(1 / slow.reference, unit))});
}

}  // namespace

void judge_rates(std::vector<Finding>& findings, const std::vector<RankReport>& ranks) {
  name_slow(findings, ranks, &RankReport::product_rate, "computes at", "FLOP/s");
  name_slow(findings, ranks, &RankReport::copy_rate, "copies memory at", "B/s");
}

}  // namespace hexad::check_cluster
