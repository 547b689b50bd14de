// What a step took and sent, rank by rank, and which ranks are slow by themselves.
#pragma once

#include <array>
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

  /// Around a step. What is sent and waited for between steps counts as the next one's traffic, not as its waiting.
  void begin();
  void end();
  double seconds() const { return seconds_; }
  /// Collective, after end(). Fills comm and ranks of `metrics`, equal on all ranks, and step_seconds, this rank's own.
  /// Returns warnings about slow ranks.
  std::vector<std::string> report(telemetry::StepMetrics& metrics, device::Device device);
  /// One line about the slowest ranks of the run so far; empty before the first step and alone.
  std::string summary() const;

 private:
  using Traffic = std::array<comm::TrafficStats, comm::traffic_class_count>;
  Traffic take() const;
  std::string name(int rank) const { return name_of(world_.topology(), rank); }
  std::vector<std::string> warnings(const std::vector<telemetry::RankTime>& times);

  const comm::World& world_;
  telemetry::SlowRanks slow_ranks_;
  double began_ = 0, seconds_ = 0, waited_ = 0;
  Traffic traffic_{};
  struct Total {
    int64_t slowest = 0;  // steps
    double own_seconds = 0;
  };
  std::vector<Total> totals_;  // of each rank
  int64_t steps_ = 0;
};

}  // namespace hexad::train
