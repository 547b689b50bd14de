// Trace of the MoE layers' schedules in one step, measured and predicted. The recipe key schedule.trace requests it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "framework/schedule/simulator.h"
#include "framework/telemetry/metrics.h"
#include "framework/telemetry/trace.h"
#include "tools/plan/rank_graphs.h"
#include "tools/train/model/pass_recorder.h"

namespace hexad::plan {

using train::PassRecorder;

/// Rates and groups for the prediction of a pass.
struct Predictor {
  schedule::Rates rates;
  schedule::RankGroups groups;  // groups of all ranks
  Meeting meeting;
  schedule::RankGroups meeting_groups;  // groups of the ranks of `meeting`
  /// Sentences for the user about rates that the predictions assume, because the cluster file lacks them: products of
  /// f64, passes of products, slowdowns. Links are not included. Empty if the recipe names no file.
  std::vector<std::string> assumed_rates;

  /// Keeps a pointer to a group of `mesh`, which must outlive the predictor. Reads the cluster file schedule.profile.
  /// The file must have products, copies, and links for all ranks' groups ep, etp, tp and experts. With
  /// schedule.moe.all_to_all: hierarchical, the file must also have links for these ep and experts groups inside and
  /// across nodes. Throws Error(usage) if the file cannot be read or lacks one of these measurements. Also uses the
  /// file's links for the groups tp x cp if the file has suitable ones. Without a file, and for all other links,
  /// assumes a default machine. Callers must tell the user about assumed links (text_of_assumed()).
  Predictor(const train::Recipe& recipe, const mesh::Mesh& mesh);
};

/// Returns a sentence for the user about links that the cluster file `profile` lacks. `links` has the descriptions of
/// these links (schedule::unmeasured_links()). Predictions take these links from a default machine.
std::string text_of_assumed(const std::string& profile, const std::vector<std::string>& links);

/// Trace of one step of the job.
struct ScheduleTrace {
  double begin = 0;                           // start of the first pass, in seconds of rank 0's base::now()
  std::vector<telemetry::TraceEvent> events;  // events of all ranks; times are relative to `begin`

  /// Totals of all passes of one kind.
  struct Kind {
    schedule::PassKind kind;
    int64_t passes = 0;                    // number of passes on all ranks
    telemetry::ScheduleMetrics seconds{};  // means over ranks with MoE layers
    double exposed = 0;  // seconds of exposed communication per rank; simultaneous collectives count once
  };
  std::vector<Kind> kinds;
  telemetry::ScheduleMetrics total;
  /// Links that were not measured, such as "all_to_all of ep, 2 ranks". These links are priced like links of a default
  /// machine.
  std::vector<std::string> assumed_links;
  std::vector<std::string> pictures;  // SVG: forward and backward of the first MoE layer of rank 0

  /// Returns a text such as "forward: predicted 1.20 ms, measured 1.00 ms (+20.0%), exposed communication 0.30 ms: R
  /// 0.10 ms, S 0.25 ms".
  static std::string line(const Kind& kind);
};

/// Gathers the trace on rank 0. Predicts each pass together with the passes of all ranks of Predictor::meeting. The
/// k-th pass of a PassName is paired with the k-th pass of the same name on the other ranks. Returns none on ranks
/// other than 0. Collective.
std::optional<ScheduleTrace> gather_trace(const std::vector<PassRecorder::Recording>& passes,
                                          const Predictor& predictor, const comm::ProcessGroup& world,
                                          device::Device device);

}  // namespace hexad::plan
