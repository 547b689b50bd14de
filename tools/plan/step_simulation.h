// Prediction of the time of a whole step. The recorded operations of several ranks are priced and simulated together.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "framework/schedule/interval.h"
#include "framework/schedule/shared_cores.h"
#include "parallel/comm/traffic_class.h"
#include "tools/plan/step_record.h"

namespace hexad::plan {

/// Returns the seconds of an operation that runs alone on the machine. The function is called for sends, but not for
/// receives.
using PriceOfIssue = std::function<double(const StepRecord&, const device::Issue&)>;

/// Slowdown of queues that run at the same time, and delays by the host.
struct StepContention {
  /// Relative speed of kernels while other work is in flight: communication inside nodes, communication between nodes,
  /// or a copy on the copy lane. Each speed is above 0 and at most 1.
  double compute_beside_intra = 1, compute_beside_inter = 1, compute_beside_copy = 1;
  /// Relative speed of communication while kernels run.
  double intra_beside_compute = 1, inter_beside_compute = 1;
  /// Priority of each class of traffic. On its network, a class yields to classes with smaller values. Classes with the
  /// same value share the network evenly.
  std::array<int, comm::traffic_class_count> priority{};
  /// Cores that the ranks of a node share. Without a value, ranks do not slow each other's kernels and copies. Ranks of
  /// the node that are not simulated are assumed to need as many cores as the simulated ranks need on average.
  std::optional<schedule::SharedCores> cores{};
  /// Time in which a rank's host issues an operation to its device, in seconds (HostClock). A kernel or copy that waits
  /// for its host keeps its lane busy. Communication that waits for its host is not in flight. 0: the host issues in no
  /// time, or computes the operations itself.
  double issuing = 0;
  /// Number of consecutive nodes that the fast link connects. Communication between these nodes counts as communication
  /// inside nodes. The index of the first of these nodes is divisible by nodes_of_domain.
  int nodes_of_domain = 1;
};

/// Times of one rank in a simulated step, in seconds from the start of the step.
struct SimulatedRank {
  int rank;  // rank number in the world
  /// One interval for each entry of StepRecord::issues. Consecutive operations of a lane are simulated as one job if no
  /// queue waits for another queue between these operations. The job's time is divided in proportion to the operations'
  /// prices.
  std::vector<schedule::Interval> times;
  double busy = 0;  // time in which kernels or copies ran
  /// Time in which no kernel or copy ran while communication of the class was in flight. Several classes that are in
  /// flight at the same time get equal parts of this time.
  std::array<double, comm::traffic_class_count> exposed{};
  double idle = 0;  // time in which nothing ran: bubbles, and waits for late ranks
};

struct SimulatedStep {
  double seconds = 0;  // duration of the step on the slowest rank
  std::vector<SimulatedRank> ranks;
};

/// Simulation of a step of the ranks in `records`, which represent all ranks. run() may be called several times, with
/// different prices.
class StepSimulation {
 public:
  /// `node_of_rank` has the node of each rank of the world. `records` and `node_of_rank` must outlive the object.
  StepSimulation(std::span<const StepRecord> records, const std::vector<int>& node_of_rank,
                 const StepContention& contention);
  ~StepSimulation();
  StepSimulation(const StepSimulation&) = delete;
  StepSimulation& operator=(const StepSimulation&) = delete;

  /// Simulates the step as described at simulate_step().
  SimulatedStep run(const PriceOfIssue& price);

 private:
  struct Jobs;
  const std::span<const StepRecord> records_;
  const std::vector<int>& node_of_rank_;
  const StepContention contention_;
  std::unique_ptr<Jobs> jobs_;
};

/// Simulates a step of the ranks in `records`, which represent all ranks. Throws std::logic_error if ranks wait for
/// each other forever. `node_of_rank` has the node of each rank of the world.
///
/// - The collectives of a group end together if several members of the group are in `records`. A collective does not
///   wait if only one member is in `records`. The other members are then assumed to do the same at the same time.
/// - A message begins when its sender issues it. A receive ends with its message, if the sender is in `records`.
/// - A sender that is not in `records` is assumed to behave like the receiver. The receive therefore ends with the
///   message that the receiver sends in the mirrored direction. The receive takes no time if the receiver sends no
///   message in this direction, or sends the message only after the receive.
SimulatedStep simulate_step(std::span<const StepRecord> records, const std::vector<int>& node_of_rank,
                            const PriceOfIssue& price, const StepContention& contention);

}  // namespace hexad::plan
