// Runs task graphs.
#pragma once

#include <cstdint>

#include "framework/schedule/fibers.h"
#include "framework/schedule/task_graph.h"

namespace hexad::schedule {

/// Run time of a task, in seconds of a monotonic clock (std::chrono::steady_clock). It begins when all its predecessors
/// are done, the previous task of its lane is over, and the lane has reached it. Collectives may be posted earlier, but
/// count one after the other. It ends when its asynchronous part is done, too.
struct TaskTime {
  double begin = 0, end = 0;
};

/// Issues the tasks in insertion order on the lanes of `context`; a task waits for what it comes after. On the host it
/// returns when every task is done, with its asynchronous part. On a device, whose queues go on by themselves, it
/// returns when all tasks are issued and the compute lane waits for them. `times` (may be null) receives one entry a
/// task; with it, the call waits for all tasks on a device, too.
///
/// `fibers` (may be null): the caller's thread yields to the other micro-batch whenever it is about to wait for a
/// collective or for another thread, even if that happens to be done: so graphs of the same structure yield equally
/// often on all ranks. Tasks that are issued late may then not post collectives: lanes would post them in any order.
void execute(const TaskGraph& graph, device::DeviceContext& context, std::vector<TaskTime>* times = nullptr,
             Fibers* fibers = nullptr);

/// A random order that dependencies and lanes allow, chosen by `seed`: a forgotten edge becomes a failing test.
std::vector<TaskId> shuffled_order(const TaskGraph& graph, uint64_t seed);
/// Runs the tasks one by one in a shuffled order. Only for graphs whose tasks do not block on other ranks' order.
void execute_shuffled(const TaskGraph& graph, device::DeviceContext& context, uint64_t seed);

}  // namespace hexad::schedule
