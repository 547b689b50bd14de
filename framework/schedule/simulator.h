// Predicts the cost of a graph without running it: a discrete-event simulation on measured rates.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "framework/schedule/rates.h"
#include "framework/schedule/timeline.h"

namespace hexad::schedule {

/// Kind of threads that drive the lanes.
enum class Drive : uint8_t {
  threads,  // each lane has its own thread
  caller,   // one thread issues the tasks in order. It waits for their predecessors and does computation and copies
            // itself, so only communication runs in parallel
};

/// Returns the current drive of the lanes of `context`.
inline Drive drive_of(const device::DeviceContext& context) {
  return context.lanes_have_threads() || context.runs_ahead() ? Drive::threads : Drive::caller;
}

/// Simulates one rank and assumes that all ranks are alike. Every lane runs its tasks in insertion order, one at a
/// time. Each task begins once its predecessors are done. A task has Rates::seconds of work. The task's speed is
/// Rates::alpha with the lanes that are active at the same moment. Throws base::Error(usage) if a rate is missing or
/// invalid.
Timeline simulate(const TaskGraph& graph, const Rates& rates, Drive drive = Drive::threads);

/// Groups of the ranks: for each kind of group (Cost::group), the number of each rank's group. Ranks with the same
/// number are members of one group. For example, "ep" -> {0, 0, 1, 1}: ranks 0 and 1 exchange, and so do 2 and 3.
using RankGroups = std::map<std::string, std::vector<int>>;

/// Simulates several ranks. Their graphs may differ in costs (skewed routing) and in tasks, but not in communication
/// tasks. The k-th communication task of a group on each of its members is one collective. A member starts when it is
/// ready and moves its own bytes, whether or not other members are ready. No member is done before all members have
/// moved their bytes. This is a lower bound, because in reality bytes wait for a receiver that is not ready. A member
/// that waits for other members occupies its lane but slows no other lane. Throws std::logic_error if members do not
/// issue the same kinds of collectives in one order, if a group is not in `groups`, or if ranks wait for each other
/// forever.
std::vector<Timeline> simulate(std::span<const TaskGraph* const> graphs, const Rates& rates, const RankGroups& groups,
                               Drive drive = Drive::threads);

}  // namespace hexad::schedule
