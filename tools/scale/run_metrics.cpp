#include "tools/scale/run_metrics.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "framework/base/error.h"
#include "framework/telemetry/metrics_json.h"

namespace hexad::scale {

using base::cat;

namespace {

// Returns the first difference between the steps of a file and the steps from 1 to `wanted`; empty if there is none.
std::string first_wrong_step(const std::vector<telemetry::StepMetrics>& steps, int64_t wanted) {
  const int64_t count = std::ssize(steps);
  for (int64_t i = 0; i < std::max(count, wanted); ++i) {
    if (i >= count) return cat("ends before step ", i + 1, " of ", wanted);
    if (i >= wanted) return cat("has step ", steps[i].step, " after the last step, ", wanted);
    if (steps[i].step != i + 1) return cat("has step ", steps[i].step, " in place of step ", i + 1, " of ", wanted);
  }
  return {};
}

}  // namespace

RunMetrics read_run_metrics(const std::string& run_dir, int64_t steps) {
  const std::string path = (std::filesystem::path(run_dir) / "metrics.jsonl").string();
  try {
    telemetry::MetricsHistory history = telemetry::read_metrics(path);
    if (!history.unreadable_lines.empty())
      return {.steps = {},
              .problem = cat(path, ":", history.unreadable_lines.front(),
                             ": the line cannot be read, expected a JSON record of metrics")};
    if (const std::string wrong = first_wrong_step(history.steps, steps); !wrong.empty())
      return {.steps = {}, .problem = cat(path, " ", wrong)};
    return {.steps = std::move(history.steps), .problem = {}};
  } catch (const base::Error& e) {
    return {.steps = {}, .problem = e.what()};
  }
}

}  // namespace hexad::scale
