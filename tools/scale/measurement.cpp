#include "tools/scale/measurement.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "framework/base/error.h"
#include "framework/base/median.h"

namespace hexad::scale {

using telemetry::StepMetrics;

namespace {

double quantile(std::vector<double> values, double part) {
  std::ranges::sort(values);
  return values[std::llround(part * static_cast<double>(values.size() - 1))];
}

// Returns the mean of the parts, scaled so that they add up to `seconds`.
StepParts mean_parts(const std::vector<StepParts>& all, double seconds) {
  StepParts sum;
  for (const StepParts& p : all) {
    sum.work += p.work;
    sum.imbalance += p.imbalance;
    for (const auto& [name, waited] : p.waiting) sum.waiting[name] += waited;
  }
  const double total = sum.total(), scale = total > 0 ? seconds / total : 0;
  sum.work *= scale;
  sum.imbalance *= scale;
  for (auto& [name, waited] : sum.waiting) waited *= scale;
  return sum;
}

}  // namespace

double StepParts::total() const {
  double sum = work + imbalance;
  for (const auto& [name, seconds] : waiting) sum += seconds;
  return sum;
}

StepParts parts_of(const StepMetrics& step) {
  double exposed = 0;
  for (const auto& [name, traffic] : step.comm) exposed += traffic.exposed_seconds;
  const double waited =
      std::min(exposed, step.step_seconds);  // limited, because two threads of a rank may wait at the same time
  StepParts parts{.work = step.step_seconds - waited};
  if (step.ranks) parts.imbalance = std::clamp(step.ranks->own_seconds.most - parts.work, 0.0, waited);
  for (const auto& [name, traffic] : step.comm)
    if (traffic.bytes > 0 || traffic.exposed_seconds > 0)
      parts.waiting[name] = exposed > 0 ? traffic.exposed_seconds / exposed * (waited - parts.imbalance) : 0;
  return parts;
}

PointMeasurement measurement_of(const std::vector<std::vector<StepMetrics>>& runs, int64_t warmup_steps) {
  base::require(!runs.empty(), "[measurement] a point has no runs; expected at least one");
  PointMeasurement m{.runs = std::ssize(runs)};
  std::vector<double> all, medians, tokens, work;
  std::vector<StepParts> parts;
  for (const std::vector<StepMetrics>& run : runs) {
    std::vector<double> seconds;
    for (const StepMetrics& step : run) {
      if (const auto peak = step.memory_peak_bytes.find("total"); peak != step.memory_peak_bytes.end())
        m.peak_memory_bytes = std::max(m.peak_memory_bytes, static_cast<double>(peak->second));
      if (step.step <= warmup_steps) continue;
      seconds.push_back(step.step_seconds);
      tokens.push_back(step.tokens_per_second * step.step_seconds);
      work.push_back(step.model_flops_per_second * step.step_seconds);
      parts.push_back(parts_of(step));
    }
    base::require(!seconds.empty(), "[measurement] a run has no step after the warm-up; expected at least one");
    medians.push_back(base::median(seconds));
    all.insert(all.end(), seconds.begin(), seconds.end());
  }
  m.steps = std::ssize(all);
  m.step_seconds = base::median(medians);
  m.least = std::ranges::min(medians);
  m.most = std::ranges::max(medians);
  m.p10 = quantile(all, 0.1);
  m.p90 = quantile(all, 0.9);
  m.work = base::median(work);
  m.tokens_per_second = base::median(tokens) / m.step_seconds;
  m.loss = runs.front().back().loss.value_or(std::numeric_limits<double>::quiet_NaN());
  m.parts = mean_parts(parts, m.step_seconds);
  return m;
}

}  // namespace hexad::scale
