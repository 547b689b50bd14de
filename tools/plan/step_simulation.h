// Predicts the time of a whole step: the recorded operations of several ranks, priced and simulated together.
#pragma once

#include <array>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "framework/schedule/interval.h"
#include "parallel/comm/traffic_class.h"
#include "tools/plan/step_record.h"

namespace hexad::plan {

/// Seconds of an operation that has the machine for itself. A message is priced where it is sent; receives are not
/// priced.
using PriceOfIssue = std::function<double(const StepRecord&, const device::Issue&)>;

/// Rates at which queues run beside each other.
struct StepContention {
  /// Speed of kernels while communication inside nodes, or between nodes, is in flight: above 0, at most 1.
  double compute_beside_intra = 1, compute_beside_inter = 1;
  /// Speed of communication while kernels run.
  double intra_beside_compute = 1, inter_beside_compute = 1;
  /// True if lower classes of traffic give way (comm::Priorities::by_need); otherwise classes share their network
  /// evenly.
  bool priorities = true;
};

/// Times of one rank in a simulated step, in seconds from its begin.
struct SimulatedRank {
  int rank;                               // in the world
  std::vector<schedule::Interval> times;  // of the record's issues
  double busy = 0;                        // in which kernels or copies ran
  /// Time in which no kernel ran while communication of the class was in flight. Classes that are in flight at the same
  /// time share it evenly.
  std::array<double, comm::traffic_class_count> exposed{};
  double idle = 0;  // in which nothing ran: bubbles, and waits for ranks that are late
};

struct SimulatedStep {
  double seconds = 0;  // of the slowest rank
  std::vector<SimulatedRank> ranks;
};

/// Simulates a step of the ranks in `records`, which represent all ranks. Collectives whose group has several of these
/// ranks end together; a collective with one of them takes its own time, because the other members do the same at the
/// same time. A message begins when its sender issues it and arrives at the receiver if that is in `records`, otherwise
/// receives take no time. node_of_rank: nodes of the world's ranks. Throws std::logic_error if ranks wait for each
/// other forever.
SimulatedStep simulate_step(std::span<const StepRecord> records, const std::vector<int>& node_of_rank,
                            const PriceOfIssue& price, const StepContention& contention);

}  // namespace hexad::plan
