// Runs task graphs.
#pragma once

#include <cstdint>

#include "framework/schedule/fibers.h"
#include "framework/schedule/task_graph.h"

namespace hexad::schedule {

/// Run time of a task, in seconds of a monotonic clock (std::chrono::steady_clock). A task begins when all its
/// predecessors are done, the previous task of its lane is over, and the lane has reached it. Collectives may be posted
/// earlier, but count one after the other. A task ends when its asynchronous part is done, too.
struct TaskTime {
  double begin = 0, end = 0;
};

/// Issues the tasks in insertion order on the lanes of `context`; each task waits for its predecessors. On the host,
/// returns when every task is done, with its asynchronous part. On a device, whose queues run by themselves, returns
/// when all tasks are issued and the compute lane waits for them. `times` (may be null) receives one entry per task; if
/// it is given, the call waits for all tasks on a device, too.
///
/// `fibers` (may be null): the caller's thread yields to the other micro-batch before each wait for a collective or for
/// another thread. It yields even if the awaited task is done, so that graphs of the same structure yield equally often
/// on all ranks. Tasks that are issued late must not post collectives then, because lanes would post them in any order.
void execute(const TaskGraph& graph, device::DeviceContext& context, std::vector<TaskTime>* times = nullptr,
             Fibers* fibers = nullptr);

/// Returns a random order that dependencies and lanes allow, chosen by `seed`. A test that runs the tasks in such an
/// order detects a missing edge.
std::vector<TaskId> shuffled_order(const TaskGraph& graph, uint64_t seed);
/// Runs the tasks one by one in a shuffled order. Only for graphs whose tasks do not block on the order of other ranks.
void execute_shuffled(const TaskGraph& graph, device::DeviceContext& context, uint64_t seed);

}  // namespace hexad::schedule
