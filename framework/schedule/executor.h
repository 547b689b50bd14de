// Execution of task graphs.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "framework/schedule/fibers.h"
#include "framework/schedule/task_graph.h"

namespace hexad::schedule {

/// Start and end of a task, in seconds of std::chrono::steady_clock. A task ends when its work on the lane and its
/// asynchronous part are done. The times of the tasks of a lane do not overlap: a collective that is posted earlier
/// counts from the end of the lane's previous task.
struct TaskTime {
  double begin = 0, end = 0;
};

/// Issues the tasks in insertion order on the lanes of `context`. Each task waits for its predecessors. On the host,
/// returns when all tasks and their asynchronous parts are done. The queues of a device run independently of the
/// caller. On a device, returns when all tasks have been issued and the compute lane's queue waits for them. Only the
/// host's parts of the tasks' events block the caller. `times`, if not null, receives one entry for each task; the call
/// then waits for all tasks on a device, too (see execute_measured()). If a task fails, waits for the tasks that have
/// been issued and rethrows the error.
///
/// If `fibers` is not null, the calling thread yields to the other micro-batch before it waits for communication. It
/// yields even if the communication is already done. Communication is new if this thread has not waited for it yet. The
/// thread yields
///   - before it waits for the predecessors of a task, if the task depends on new communication, directly or through
///     other tasks;
///   - at the end of the graph, if there is new communication.
/// The first rule has an exception for copies. Consider a copy and the next task that is not a copy. The next task may
/// directly depend on the copy, or on all direct predecessors of the copy. In this case, the thread yields only once,
/// before the copy. This yield is for all communication on which the next task depends. Graphs that differ only in such
/// copies therefore yield at the same points on all ranks.
///
/// With `fibers`, lanes with threads issue the issued_late tasks of both micro-batches at times that differ by rank.
/// Such tasks may post collectives only in groups in which no other thread posts any. A lane issues its tasks in the
/// order in which the calling thread reached them. The order of the collectives in these groups is therefore the same
/// on all ranks.
void execute(const TaskGraph& graph, device::DeviceContext& context, std::vector<TaskTime>* times = nullptr,
             Fibers* fibers = nullptr);

/// Function that returns one entry for each task of an executed graph. Blocks the caller until all tasks are done.
using ReadTimes = std::function<std::vector<TaskTime>()>;
/// Executes the graph like execute(), and measures the tasks without waiting for them: on a device, the lanes record
/// timed marks. The returned function keeps no tensors alive, and may be called later, for example after the step.
ReadTimes execute_measured(const TaskGraph& graph, device::DeviceContext& context, Fibers* fibers = nullptr);

/// Returns a random order that the dependencies and lanes permit, determined by `seed`. A test that runs the tasks in
/// such orders can detect a missing edge.
std::vector<TaskId> shuffled_order(const TaskGraph& graph, uint64_t seed);
/// Runs the tasks one after the other in the order of shuffled_order(). The tasks must not block if ranks run them in
/// different orders.
void execute_shuffled(const TaskGraph& graph, device::DeviceContext& context, uint64_t seed);

}  // namespace hexad::schedule
