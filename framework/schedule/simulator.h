// Predicts the cost of a graph without running it: a discrete-event simulation on measured rates.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "framework/schedule/rates.h"
#include "framework/schedule/timeline.h"

namespace hexad::schedule {

/// Threads that drive the lanes.
enum class Drive : uint8_t {
  threads,  // each lane runs for itself
  caller,  // one thread issues the tasks in order: it waits for what a task comes after and does computation and copies
           // itself, so that only communication runs beside them
};

/// Returns how the lanes of `context` are driven now.
inline Drive drive_of(const device::DeviceContext& context) {
  return context.lanes_have_threads() || context.runs_ahead() ? Drive::threads : Drive::caller;
}

/// One rank, all others alike. Every lane runs its tasks in insertion order, one at a time, each as soon as what it
/// comes after is done. A task has Rates::seconds of work, done at the speed Rates::alpha gives beside the lanes that
/// are at work at the same moment. Throws base::Error(usage) when a rate is missing or no rate.
Timeline simulate(const TaskGraph& graph, const Rates& rates, Drive drive = Drive::threads);

/// Groups of the ranks: for each kind of group (Cost::group), the number of each rank's group. Ranks with the same
/// number are members of one group. "ep" -> {0, 0, 1, 1}: ranks 0 and 1 exchange, and so do 2 and 3.
using RankGroups = std::map<std::string, std::vector<int>>;

/// Several ranks. Their graphs may differ in costs (skewed routing) and, apart from communication, in tasks. The k-th
/// communication task of a group on each of its members is one collective: a member starts when it is ready and moves
/// its own bytes, whether or not others are ready, and nobody is done before all members have moved theirs. This is a
/// lower bound, as in truth bytes wait for a receiver that is not ready. A member that waits for others holds its lane
/// but slows no other lane. Throws std::logic_error when members do not issue the same kinds of collectives in one
/// order, when a group is not in `groups`, or when ranks wait for each other forever.
std::vector<Timeline> simulate(std::span<const TaskGraph* const> graphs, const Rates& rates, const RankGroups& groups,
                               Drive drive = Drive::threads);

}  // namespace hexad::schedule
