// A schedule as data: tasks with a lane, a cost and dependencies. Built by pure functions; run by the executor, priced
// by the simulator, drawn by the tracer, tested by the shuffled executor.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/device/context.h"

namespace hexad::schedule {

using device::Event;
using device::Lane;
using device::Stream;

using TaskId = int32_t;

/// Kind of a task; together with the task's group it selects the measured link that prices its bytes.
enum class TaskKind : uint8_t { all_to_all, all_gather, reduce_scatter, all_reduce, send, compute, copy };
inline constexpr int kind_count = 7;
std::string_view name_of(TaskKind kind);
/// All kinds but compute and copy.
bool is_communication(TaskKind kind);

/// Pass of a matrix product: y = x W, the gradient of x or that of W.
enum class GemmPass : uint8_t { forward, input_gradient, weight_gradient };
constexpr auto enum_names(GemmPass) {
  return std::to_array<std::pair<GemmPass, std::string_view>>({{GemmPass::forward, "forward"},
                                                               {GemmPass::input_gradient, "input_gradient"},
                                                               {GemmPass::weight_gradient, "weight_gradient"}});
}
template <class T>
using ByGemmPass = std::array<T, enum_names(GemmPass{}).size()>;

/// Data that a task moves and operations that it computes: priced by the simulator, shown in the trace.
struct Cost {
  double flops = 0;
  ByGemmPass<int64_t> products{};  // with weights of one size, which share the FLOPs evenly; all zero: one, forward
  int64_t wire_bytes = 0;          // sent by this rank to others
  int64_t received_bytes = 0;      // from others, where routing makes it differ; the larger one is priced (full duplex)
  int64_t copy_bytes = 0;          // within the device, or between it and the host
  std::string group{};             // kind of process group the bytes travel in: "ep", "etp", "tp", "experts"; or none
  int group_size = 1;
  bool crosses_nodes = false;  // the group's ranks are on several nodes
  bool operator==(const Cost&) const = default;
};

struct TaskSpec {
  Lane lane = Lane::compute;
  std::string name;  // a number at its end counts chunks: a2a[0], a2a[1] are parts of the collective a2a
  Cost cost{};
  TaskKind kind = TaskKind::compute;
  /// Issued by its lane, when that gets to it, and not ahead of time by the issuing thread. A task allocates its
  /// tensors when it is issued: late, they can take the memory that the tasks before have freed.
  bool issued_late = false;
};

/// Work of a task, started on its lane's stream. The returned event (default: none) says when the part that does not
/// run on the stream, such as a collective, is done; the task is done when both are.
using TaskWork = std::function<Event(Stream&)>;

struct Task {
  TaskSpec spec;
  std::vector<TaskId> after;
  TaskWork work;
};

/// Insertion order is issue order and must be the same on all ranks. Two tasks of one lane run in insertion order.
class TaskGraph {
 public:
  /// Throws when `after` names a task that is not yet in the graph: the order of insertion is an order of execution.
  TaskId add(TaskSpec spec, std::vector<TaskId> after, TaskWork work);
  std::span<const Task> tasks() const { return tasks_; }
  /// "inter: a2a[0] a2a[1] back[0](mlp[0]) | compute: mlp[0](a2a[0])": lanes in the order of the enum, what a task
  /// comes after in brackets.
  std::string to_string() const;

 private:
  std::vector<Task> tasks_;
};

/// Returns the same tasks without their work, which may hold on to tensors; such a graph may be kept.
TaskGraph without_work(const TaskGraph& graph);

}  // namespace hexad::schedule
