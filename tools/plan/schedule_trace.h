// Trace of the MoE layers' schedules in one step, measured beside predicted: the recipe's schedule.trace.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "framework/schedule/simulator.h"
#include "framework/telemetry/metrics.h"
#include "framework/telemetry/trace.h"
#include "tools/train/model/pass_recorder.h"

namespace hexad::plan {

using train::PassRecorder;

/// Rates and groups with which a pass is predicted.
struct Predictor {
  schedule::Rates rates;
  schedule::RankGroups groups;

  /// Reads the cluster file schedule.profile; takes a plain machine without one, and for links that the file lacks.
  /// Throws Error(usage) if the file cannot be read or lacks products, copies or groups of `mesh`.
  Predictor(const train::Recipe& recipe, const mesh::Mesh& mesh);
};

/// One step of the job.
struct ScheduleTrace {
  double begin = 0;                           // of the first pass: seconds of rank 0's base::now()
  std::vector<telemetry::TraceEvent> events;  // of all ranks, from there

  /// All graphs of one kind: "forward", "backward", and under Parm's S1 "gradient of shares", gathered after the
  /// gate's.
  struct Kind {
    std::string name;
    int64_t passes = 0;                    // of all ranks
    telemetry::ScheduleMetrics seconds{};  // of a rank
    double exposed = 0;                    // of a rank: communication; collectives in flight together count once
  };
  std::vector<Kind> kinds;
  telemetry::ScheduleMetrics total;
  /// "all_to_all of ep, 2 ranks": links priced as those of a plain machine, because they were not measured.
  std::vector<std::string> assumed_links;
  std::vector<std::string> pictures;  // SVG: forward and backward of the first MoE layer of rank 0

  /// "forward: predicted 1.20 ms, measured 1.00 ms (+20.0%), exposed communication 0.30 ms: R 0.10 ms, S 0.25 ms".
  static std::string line(const Kind& kind);
};

/// Collective; rank 0 receives the trace. Each pass is predicted with those of all ranks: the k-th of a name meets the
/// k-th of that name on others in its groups.
std::optional<ScheduleTrace> gather_trace(const std::vector<PassRecorder::Recording>& passes,
                                          const Predictor& predictor, const comm::ProcessGroup& world,
                                          device::Device device);

}  // namespace hexad::plan
