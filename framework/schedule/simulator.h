// Prediction of the time of a graph without running it, by a discrete-event simulation with measured rates.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "framework/schedule/rates.h"
#include "framework/schedule/timeline.h"

namespace hexad::schedule {

/// Threads or queues that run the tasks of the lanes.
enum class Drive : uint8_t {
  threads,  // each lane has its own thread or queue
  caller,   // one thread issues the tasks in order, waits for their predecessors, computes and copies; only
            // communication runs concurrently
};

/// Returns the current Drive of the lanes of `context`.
inline Drive drive_of(const device::DeviceContext& context) {
  return context.lanes_have_threads() || context.runs_ahead() ? Drive::threads : Drive::caller;
}

/// Simulates one rank, assuming that all ranks run equal tasks at the same times. Every lane runs its tasks in
/// insertion order, one at a time. A task begins once its predecessors and the lane's previous task are done. With
/// Drive::caller, it also waits until the thread issues it. A task takes Rates::seconds() at full speed. The speed of a
/// task at any time is Rates::alpha() for the lanes that are then active. The speed of computations and copies is also
/// multiplied by SharedCores::speed() if ranks share cores. Links are assumed to be idle for a long time before the
/// first task. Bursts (Rates::bursts) therefore shorten the first transfers, and later the transfers after idle times.
/// Throws base::Error(usage) if a rate is missing or invalid.
Timeline simulate(const TaskGraph& graph, const Rates& rates, Drive drive = Drive::threads);

/// Group number of each rank, for each kind of group (Cost::group). Ranks with the same number are in the same group.
/// For example, "ep" -> {0, 0, 1, 1} puts ranks 0 and 1 in one group, and ranks 2 and 3 in another.
using RankGroups = std::map<std::string, std::vector<int>>;
/// Key in RankGroups for the nodes: ranks with the same number are on the same node. These groups have no collectives,
/// but their ranks share cores (Rates::cores). The ranks of a node are assumed to run equal tasks at the same times if
/// RankGroups lacks this key.
inline constexpr const char* node_group = "node";

/// Simulates several ranks. Their graphs may differ in costs (skewed routing) and in tasks. However, the members of a
/// group must have communication tasks of the same kinds in the same order. The k-th communication tasks of all members
/// are one collective. A member that is ready starts its task, and transfers its bytes even if other members are not
/// ready. No member is done before all members have transferred their bytes. The simulated time is a lower bound,
/// because in reality bytes wait for a receiver that is not ready. A member that waits for another occupies its lane
/// but does not slow other lanes.
///
/// If the ranks of a node share cores, their need for cores determines the speed of computations and copies. These
/// tasks run faster while the ranks need fewer cores than during the measurement, and slower while the ranks need more.
/// Communication keeps its speed. A rank without tasks is assumed to need the average number of cores of the other
/// ranks of its node.
///
/// Throws base::Error(usage) if a rate is missing or invalid. Throws std::logic_error if
///   - the members of a group differ in the number or the kinds of their collectives;
///   - `groups` does not fit the graphs;
///   - ranks wait for each other forever.
std::vector<Timeline> simulate(std::span<const TaskGraph* const> graphs, const Rates& rates, const RankGroups& groups,
                               Drive drive = Drive::threads);

}  // namespace hexad::schedule
