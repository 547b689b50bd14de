// A run in a few figures, for tables that compare runs.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "framework/telemetry/metrics_json.h"

namespace hexad::telemetry {

/// Summary of the steps after a given one. NaN: not measured.
struct RunSummary {
  int64_t last_step = 0, tokens = 0;
  double loss = 0, heldout_loss = 0;  // the last ones
  int64_t peak_memory_bytes = 0;      // the most of a step, on the rank where it is highest

  // The first step finds its memory: it is left out where there are others.
  int64_t first_timed_step = 0, timed_steps = 0;
  struct Quantiles {
    double tenth = 0, median = 0, ninetieth = 0;
  };
  Quantiles step_seconds;
  double tokens_per_second = 0, model_flops_per_second = 0, mfu = 0;  // medians; all ranks
  /// Share of the steps' time in which computation waited, by class of traffic; those that sent nothing are left out.
  std::map<std::string, double> exposed_share;
  /// At most 1, though two threads of a rank may wait at once.
  double exposed_share_of_all() const;
};

/// `history` has a step after `after`.
RunSummary summary_of(const MetricsHistory& history, int64_t after);

}  // namespace hexad::telemetry
