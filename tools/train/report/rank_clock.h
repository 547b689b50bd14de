// Time and traffic of each step, by rank, and the ranks that are slow by themselves. Evaluations and saves are measured
// apart from the steps.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "framework/telemetry/metrics.h"
#include "framework/telemetry/rank_times.h"
#include "parallel/comm/world.h"
#include "parallel/mesh/mesh.h"

namespace hexad::train {

class RankClock {
 public:
  RankClock(const comm::World& world, const mesh::Mesh& mesh);

  /// Around a step, whose traffic is its own: messages between steps count nowhere.
  void begin();
  void end();
  double seconds() const { return step_.seconds; }
  /// Collective, after end(). Fills comm and ranks of `metrics`, equal on all ranks, and step_seconds, this rank's own.
  /// Returns warnings about slow ranks.
  std::vector<std::string> report(telemetry::StepMetrics& metrics, device::Device device);

  struct Phase {
    double seconds = 0;  // of this rank
    telemetry::CommByClass comm;
  };
  /// Runs `work`, which is part of no step, and returns its time and traffic. Collective.
  Phase measure(device::DeviceContext& context, const std::function<void()>& work);

  /// One line about the slowest ranks of the run so far; empty before the first step and alone.
  std::string summary() const;

 private:
  using Traffic = std::array<comm::TrafficStats, comm::traffic_class_count>;
  struct Account {
    double seconds = 0, waited_seconds = 0;
    Traffic traffic{};
  };
  Traffic take() const;
  void keep_late_bytes();
  Account account_since(double began) const;
  /// Collective: the accounts of all ranks, one after the other.
  std::vector<std::vector<int64_t>> gathered(const Account& mine, device::Device device) const;
  std::string name(int rank) const { return name_of(world_.topology(), rank); }
  std::vector<std::string> warnings(const std::vector<telemetry::RankTime>& times);

  const comm::World& world_;
  telemetry::SlowRanks slow_ranks_;
  double began_ = 0;
  Account step_;
  /// Bytes of operations that a device ended only after their step. They count in the next step.
  std::array<int64_t, comm::traffic_class_count> late_bytes_{};
  struct Total {
    int64_t slowest = 0;  // steps
    double own_seconds = 0;
  };
  std::vector<Total> totals_;  // of each rank
  int64_t steps_ = 0;
};

}  // namespace hexad::train
