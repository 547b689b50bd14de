// Task graph: a schedule as data. It consists of tasks with a lane, a cost, dependencies and work. The executor runs
// graphs, the simulator predicts their times, reports and traces show them, and execute_shuffled() tests them.
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

/// Kind of a task. The kind and the group of a communication task determine the link that predicts its time
/// (Rates::find).
enum class TaskKind : uint8_t { all_to_all, all_gather, reduce_scatter, all_reduce, send, compute, copy };
inline constexpr int kind_count = 7;
std::string_view name_of(TaskKind kind);
/// True for all kinds except compute and copy.
bool is_communication(TaskKind kind);

template <class T>
using ByGemmPass = std::array<T, enum_names(GemmPass{}).size()>;

/// Equal transfers that a computing task posts and waits for, such as the collectives of tensor-parallel products. The
/// simulator adds their times to the time of the task's other work. It assumes that this rank does not wait for other
/// ranks.
struct Transfer {
  TaskKind kind;               // a kind of communication
  int64_t wire_bytes = 0;      // bytes that this rank sends or receives in each transfer, whichever are more
  int64_t times = 1;           // number of equal transfers
  std::string group{};         // as in Cost
  int group_size = 1;          // as in Cost
  bool crosses_nodes = false;  // as in Cost
  bool operator==(const Transfer&) const = default;
};

/// Bytes that a task transfers and floating-point operations that it performs. The simulator uses them. Traces show
/// them, except `transfers`.
struct Cost {
  double flops = 0;
  // Number of matrix products of each pass. All products have weights of the same size and the same number of FLOPs.
  // The FLOPs count as one forward product if all numbers are zero.
  ByGemmPass<int64_t> products{};
  // true: one kernel call for each expert and projection; false: one grouped call for each projection
  bool dense = false;
  // share of the rank's kernel threads, or of the GPU's multiprocessors, that the task may use (kernels::ComputeShare)
  double share = 1;
  int64_t wire_bytes = 0;      // bytes sent by this rank to other ranks
  int64_t received_bytes = 0;  // bytes received from other ranks; may be 0 if they are not more than wire_bytes. The
                               // larger of the two numbers determines the time (full duplex)
  int64_t copy_bytes = 0;      // bytes copied within the device, or between the device and the host
  std::string group{};         // kind of process group that communicates, for example "ep", "etp", "tp" or "experts";
                               // empty: none
  int group_size = 1;
  bool crosses_nodes = false;         // true if the ranks of the group are on several nodes
  std::vector<Transfer> transfers{};  // transfers inside a computing task
  bool operator==(const Cost&) const = default;
};

struct TaskSpec {
  Lane lane = Lane::compute;
  std::string name;  // may end in the number of a chunk: a2a[0] and a2a[1] are parts of the collective a2a
  Cost cost{};
  TaskKind kind = TaskKind::compute;
  /// True if the lane issues the task when the lane reaches it; false if the issuing thread issues the task in advance.
  /// A task allocates its tensors when it is issued. A task that is issued late can therefore reuse memory that earlier
  /// tasks have freed. The flag has an effect only if the lane has its own thread.
  bool issued_late = false;
};

/// Function that starts the work of a task on the stream of its lane. The returned event marks the end of the part that
/// does not run on the stream, such as a collective. The event is default-constructed if there is no such part. The
/// task is done when both parts are done.
using TaskWork = std::function<Event(Stream&)>;

struct Task {
  TaskSpec spec;
  std::vector<TaskId> after;
  TaskWork work;
};

/// Tasks and their dependencies. execute() issues tasks in insertion order. Communication tasks must therefore have the
/// same order on all ranks. Two tasks on the same lane run in insertion order.
class TaskGraph {
 public:
  /// Adds a task. Throws std::logic_error if `work` is empty, or if `after` contains a task that is not in the graph
  /// yet. Insertion order is therefore a legal order of execution.
  TaskId add(TaskSpec spec, std::vector<TaskId> after, TaskWork work);
  std::span<const Task> tasks() const { return tasks_; }
  /// Returns a text like "inter: a2a[0] a2a[1] back[0](mlp[0]) | compute: mlp[0](a2a[0])". Lanes are in the order of
  /// the enum, and predecessors are in parentheses.
  std::string to_string() const;

 private:
  std::vector<Task> tasks_;
};

/// Returns a copy of the graph without the tasks' work. Store only such copies, because work may keep tensors alive.
TaskGraph without_work(const TaskGraph& graph);

}  // namespace hexad::schedule
