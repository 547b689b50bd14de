// Measures time and traffic of each step on each rank, and detects slow ranks. Evaluations and saves are measured
// separately.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "framework/telemetry/metrics.h"
#include "framework/telemetry/rank_times.h"
#include "parallel/comm/process_group.h"
#include "parallel/comm/transport.h"
#include "parallel/mesh/mesh.h"

namespace hexad::train {

class RankClock {
 public:
  /// Keeps references to all arguments, which must outlive the clock. `world` is the group of all ranks, and `topology`
  /// is the topology of this group.
  RankClock(const comm::ProcessGroup& world, const comm::Topology& topology, const mesh::Mesh& mesh);

  /// Begins a step. Traffic between begin() and end() counts, and so do bytes that are recorded after the previous
  /// end() (see late_bytes_). Control traffic between steps does not count. Call both functions on the rank's own
  /// thread: communication counts as exposed while this thread is blocked.
  void begin();
  void end();
  double seconds() const { return step_.seconds; }
  /// Fills in `comm`, `ranks` and `step_seconds` of `metrics`. `ranks` is equal on all ranks, and remains unset on a
  /// single rank; `step_seconds` is the time of this rank. Returns warnings about slow ranks, equal on all ranks. Only
  /// rank 0 receives the times of all ranks, 16 bytes from each rank. Collective, after end().
  std::vector<std::string> report(telemetry::StepMetrics& metrics, device::Device device);

  struct Phase {
    double seconds = 0;  // seconds on this rank
    telemetry::CommByClass comm;
  };
  /// Runs `work` between two steps and returns its time and traffic. Collective.
  Phase measure(device::DeviceContext& context, const std::function<void()>& work);

  /// Returns one line about the slowest rank in the steps reported so far. Returns an empty text before the first
  /// report, on a single rank, and on all ranks but rank 0.
  std::string summary() const;

 private:
  using TrafficByClass = std::array<comm::TrafficStats, comm::traffic_class_count>;
  struct Account {
    double seconds = 0, waited_seconds = 0;
    TrafficByClass traffic{};
  };
  TrafficByClass take() const;
  void keep_late_bytes();
  Account account_since(double began) const;
  /// Returns the sum of all ranks' bytes and the mean of their seconds, by traffic class. Limits each mean to the
  /// seconds of this rank, because other ranks may have taken longer. Collective.
  telemetry::CommByClass comm_of_all(const Account& account, device::Device device) const;
  std::string name(int rank) const { return name_of(topology_, rank); }
  /// Adds the times of all ranks in a step to slow_ranks_. Returns the warnings, one per line. Called only on rank 0.
  std::string warnings_of(const std::vector<telemetry::RankTime>& times);

  const comm::ProcessGroup& world_;
  const comm::Topology& topology_;
  telemetry::SlowRanks slow_ranks_;
  double began_ = 0;
  std::optional<comm::RankThread> rank_thread_{};  // has a value during a step
  Account step_;
  /// Bytes recorded between steps, because device operations ended only after their step. The next step counts them.
  std::array<int64_t, comm::traffic_class_count> late_bytes_{};
  struct Total {
    int64_t slowest = 0;  // number of steps in which the rank was slowest
    double own_seconds = 0;
  };
  std::vector<Total> totals_;  // totals of each rank; empty except on rank 0
  int64_t steps_ = 0;
};

}  // namespace hexad::train
