// Task graph: a schedule as data, tasks with a lane, a cost and dependencies. Pure functions build it, the executor
// runs it, the simulator prices it, the tracer draws it, and the shuffled executor tests it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/base/gemm_pass.h"
#include "framework/device/context.h"

namespace hexad::schedule {

using base::GemmPass;
using device::Event;
using device::Lane;
using device::Stream;

using TaskId = int32_t;

/// Kind of a task; together with the task's group it selects the measured link that prices its bytes.
enum class TaskKind : uint8_t { all_to_all, all_gather, reduce_scatter, all_reduce, send, compute, copy };
inline constexpr int kind_count = 7;
std::string_view name_of(TaskKind kind);
/// True for all kinds but compute and copy.
bool is_communication(TaskKind kind);

template <class T>
using ByGemmPass = std::array<T, enum_names(GemmPass{}).size()>;

/// Data that a task moves and operations that it computes. The simulator prices them and the trace shows them.
struct Cost {
  double flops = 0;
  // Number of matrix products by pass. They have weights of one size and share the FLOPs evenly. All zero: one forward
  // product.
  ByGemmPass<int64_t> products{};
  int64_t wire_bytes = 0;      // sent by this rank to other ranks
  int64_t received_bytes = 0;  // received, if it differs from wire_bytes; the larger number is priced (full duplex)
  int64_t copy_bytes = 0;      // within the device, or between it and the host
  std::string group{};         // kind of process group that moves the bytes: "ep", "etp", "tp", "experts"; or none
  int group_size = 1;
  bool crosses_nodes = false;  // the group's ranks are on several nodes
  bool operator==(const Cost&) const = default;
};

struct TaskSpec {
  Lane lane = Lane::compute;
  std::string name;  // a number at the end counts chunks: a2a[0], a2a[1] are parts of the collective a2a
  Cost cost{};
  TaskKind kind = TaskKind::compute;
  /// True if the lane issues the task when the lane reaches it; false if the issuing thread issues it ahead of time. A
  /// task allocates its tensors when it is issued. A late task can reuse memory that earlier tasks have freed.
  bool issued_late = false;
};

/// Work of a task, started on its lane's stream. The returned event (default: none) marks the end of the part that does
/// not run on the stream, such as a collective. The task is done when both parts are.
using TaskWork = std::function<Event(Stream&)>;

struct Task {
  TaskSpec spec;
  std::vector<TaskId> after;
  TaskWork work;
};

/// Tasks and their dependencies. Insertion order is issue order and must be the same on all ranks. Two tasks of one
/// lane run in insertion order.
class TaskGraph {
 public:
  /// Adds a task. Throws if `after` names a task that is not yet in the graph, so the order of insertion is an order of
  /// execution.
  TaskId add(TaskSpec spec, std::vector<TaskId> after, TaskWork work);
  std::span<const Task> tasks() const { return tasks_; }
  /// Returns "inter: a2a[0] a2a[1] back[0](mlp[0]) | compute: mlp[0](a2a[0])": lanes in the order of the enum,
  /// predecessors in brackets.
  std::string to_string() const;

 private:
  std::vector<Task> tasks_;
};

/// Returns the same tasks without their work. The work may keep tensors alive, so only such a graph may be stored.
TaskGraph without_work(const TaskGraph& graph);

}  // namespace hexad::schedule
