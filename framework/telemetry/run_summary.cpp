#include "framework/telemetry/run_summary.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "framework/base/error.h"
#include "framework/base/median.h"
#include "framework/telemetry/page.h"

namespace hexad::telemetry {
namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

double quantile(const std::vector<double>& sorted, double part) {
  if (sorted.empty()) return unknown;
  return sorted[std::llround(part * static_cast<double>(sorted.size() - 1))];
}

RunSummary::Quantiles quantiles_of(std::span<const StepMetrics> steps) {
  std::vector<double> seconds;
  for (const StepMetrics& s : steps)
    if (std::isfinite(s.step_seconds)) seconds.push_back(s.step_seconds);
  std::ranges::sort(seconds);
  return {quantile(seconds, 0.1), base::median(seconds), quantile(seconds, 0.9)};
}

double positive_median(std::span<const StepMetrics> steps, double StepMetrics::*member) {
  std::vector<double> values;
  for (const StepMetrics& s : steps) values.push_back(s.*member);
  const double value = base::median(std::move(values));
  return value > 0 ? value : unknown;
}

std::map<std::string, double> exposed_shares(std::span<const StepMetrics> steps) {
  std::map<std::string, CommMetrics> sums;
  double seconds = 0;
  for (const StepMetrics& s : steps) {
    seconds += s.step_seconds;
    for (const auto& [name, c] : s.comm) {
      sums[name].bytes += c.bytes;
      sums[name].exposed_seconds += c.exposed_seconds;
    }
  }
  std::map<std::string, double> shares;
  for (const auto& [name, c] : sums)
    if (c.bytes > 0) shares[name] = c.exposed_seconds / seconds;
  return shares;
}

}  // namespace

double RunSummary::exposed_share_of_all() const {
  double sum = 0;
  for (const auto& [name, share] : exposed_share) sum += share;
  return std::min(sum, 1.0);
}

RunSummary summary_of(const MetricsHistory& history, int64_t after) {
  const auto first = std::ranges::find_if(history.steps, [&](const StepMetrics& s) { return s.step > after; });
  base::require(first != history.steps.end(), "[run summary] the history has no step after step ", after,
                "; expected at least one");
  std::span<const StepMetrics> steps(first, history.steps.end());
  RunSummary summary;
  summary.last_step = steps.back().step;
  summary.tokens = steps.back().tokens;
  summary.loss = steps.back().loss.value_or(unknown);
  summary.heldout_loss = history.evals.empty() ? unknown : history.evals.back().loss.value_or(unknown);
  for (const StepMetrics& s : steps)
    if (const auto total = s.memory_peak_bytes.find("total"); total != s.memory_peak_bytes.end())
      summary.peak_memory_bytes = std::max(summary.peak_memory_bytes, total->second);
  if (steps.size() > 1) steps = steps.subspan(1);
  summary.first_timed_step = steps.front().step;
  summary.timed_steps = std::ssize(steps);
  summary.step_seconds = quantiles_of(steps);
  summary.tokens_per_second = positive_median(steps, &StepMetrics::tokens_per_second);
  summary.model_flops_per_second = positive_median(steps, &StepMetrics::model_flops_per_second);
  summary.mfu = positive_median(steps, &StepMetrics::mfu);
  summary.exposed_share = exposed_shares(steps);
  return summary;
}

}  // namespace hexad::telemetry
