// Measures the steps of a run.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "framework/device/context.h"
#include "framework/device/memory.h"
#include "framework/telemetry/metrics.h"
#include "layers/base/model_config.h"
#include "layers/moe/router/router_statistics.h"
#include "parallel/comm/world.h"
#include "tools/train/model/training_state.h"
#include "tools/train/report/peak_meter.h"
#include "tools/train/report/rank_clock.h"

namespace hexad::train {

/// Returns the share of each expert in the token-expert pairs of its layer. The table has one row for each block of
/// `model`, including prediction blocks. The row of a block without experts is empty. `routers` has the statistics of
/// all MoE layers of the model, in order. If `routers` is empty, the table is empty.
std::vector<std::vector<double>> expert_loads(const layers::ModelConfig& model,
                                              const std::vector<layers::RouterStatistics>& routers);

/// Times each step and computes its metrics.
class StepMeter {
 public:
  /// Makes a meter. Must be called before the first step that the meter measures. `flops_per_token` covers forward and
  /// backward. `warn` receives warnings about slow ranks and about a rise of the peak. All references must outlive the
  /// meter.
  StepMeter(const Recipe& recipe, TrainingState& state, const comm::World& world, std::unique_ptr<PeakMeter> peak,
            double flops_per_token, std::function<void(const std::string&)> warn);

  /// Begins a step. Time, traffic, reads by the host and peaks of memory between begin_step() and end_step() belong to
  /// the step. Call both functions on the rank's own thread (RankClock::begin()).
  void begin_step();
  void end_step();
  /// Returns the clock of the ranks. It also measures work between steps.
  RankClock& clock() { return clock_; }
  /// Returns the metrics of the step that has ended. Collective.
  telemetry::StepMetrics metrics_of(const StepResult& result);
  /// Measures the peak FLOP/s again if this takes little time compared with the steps. Call it after metrics_of().
  /// Collective.
  void update_peak(const StepResult& result, const telemetry::StepMetrics& metrics);

 private:
  /// Adds the peak memory of the step that ended last, in bytes by category. Each value is the maximum over ranks.
  /// Collective.
  void add_memory(telemetry::StepMetrics& metrics) const;
  void add_routers(telemetry::StepMetrics& metrics, const StepResult& result) const;
  /// True if the metrics of `step` show the load of every expert.
  bool shows_loads(int64_t step) const;

  const Recipe& recipe_;
  TrainingState& state_;
  const comm::World& world_;
  const std::unique_ptr<PeakMeter> peak_;
  const std::function<void(const std::string&)> warn_;
  RankClock clock_;
  // Reads by the host, and peaks of memory, in the step that ended last.
  device::DeviceContext::HostReads host_reads_;
  device::MemoryStats memory_;
  const double flops_per_token_;
  double reported_peak_ = 0;     // peak FLOP/s of all ranks in the latest metrics; 0 before the first
  const int64_t started_after_;  // last step before the measured steps
};

}  // namespace hexad::train
