// Runs task graphs.
#pragma once

#include <cstdint>

#include "framework/schedule/task_graph.h"
#include "framework/schedule/turns.h"

namespace hexad::schedule {

/// When a task ran, in seconds of a monotonic clock (std::chrono::steady_clock). It begins when it may: what it comes
/// after is done, the task before it on its lane is over (a lane's asynchronous parts may be posted early, but count
/// one after the other) and its lane has come to it. It ends when its asynchronous part, too, is done.
struct TaskTime {
  double begin = 0, end = 0;
};

/// Issues the tasks in insertion order on the lanes of `context`; a task waits for what it comes after. Returns when
/// every task is done, also the asynchronous parts; on a device, whose queues go on by themselves, when all are issued
/// and the compute lane waits for them. `times` (may be null) receives one entry a task; who asks for it waits for all
/// tasks on a device, too.
///
/// `turns` (may be null): the caller's thread hands over whenever it is about to wait for tasks that ranks take part in
/// or that run on other threads, also when they happen to be done: graphs of the same structure hand over equally
/// often. Tasks that are issued late may then not post collectives: lanes would do so in any order.
void execute(const TaskGraph& graph, device::DeviceContext& context, std::vector<TaskTime>* times = nullptr,
             Turns* turns = nullptr);

/// A random order that dependencies and lanes allow, chosen by `seed`: a forgotten edge becomes a failing test.
std::vector<TaskId> shuffled_order(const TaskGraph& graph, uint64_t seed);
/// Runs the tasks one by one in a shuffled order. Only for graphs whose tasks do not block on other ranks' order.
void execute_shuffled(const TaskGraph& graph, device::DeviceContext& context, uint64_t seed);

}  // namespace hexad::schedule
