// Summary of a run in a few numbers, for tables that compare runs.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "framework/telemetry/metrics_json.h"

namespace hexad::telemetry {

/// Summary of the steps after a given step. NaN means that a value was not measured.
struct RunSummary {
  int64_t last_step = 0, tokens = 0;
  double loss = 0, heldout_loss = 0;  // last step's loss and last evaluation's loss, in nats per token
  int64_t peak_memory_bytes = 0;      // maximum over the steps and ranks; 0 if it was not recorded

  // The first step, which also allocates memory, is timed only if there is no other step.
  int64_t first_timed_step = 0, timed_steps = 0;
  struct Quantiles {
    double tenth = 0, median = 0, ninetieth = 0;
  };
  Quantiles step_seconds;
  double tokens_per_second = 0, model_flops_per_second = 0, mfu = 0;  // medians over the timed steps, for all ranks
  /// Fraction of the step time during which computation waited, by class of traffic. Classes that sent no bytes are
  /// omitted.
  std::map<std::string, double> exposed_share;
  /// Returns the sum of exposed_share, limited to 1 because two threads of a rank may wait at the same time.
  double exposed_share_of_all() const;
};

/// Summarises the steps after `after`. `history` must contain at least one such step.
RunSummary summary_of(const MetricsHistory& history, int64_t after);

}  // namespace hexad::telemetry
