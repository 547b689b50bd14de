// Builder of the task graph of a pass. Dispatch, experts and combine add their tasks to it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/schedule/task_graph.h"
#include "layers/moe/routes/routes.h"

namespace hexad::moe {

using schedule::Cost;
using schedule::Lane;
using schedule::TaskId;
using schedule::TaskKind;

constexpr TaskId no_task = -1;

/// Passes a value from the task that creates it to later tasks. Copies of a handoff share the value. take() empties the
/// handoff. A value that no task takes exists until all copies of the handoff are destroyed, including the copies in
/// tasks.
template <class T>
class Handoff {
 public:
  void put(T value) { state_->value = std::move(value); }
  const T& read() const { return state_->value; }
  T take() { return std::exchange(state_->value, T{}); }
  /// Like take(), for `takers` tasks of different lanes. Each of these tasks calls this function once. The calls may be
  /// concurrent. The last call empties the handoff.
  T take_as_one_of(int takers) {
    T value = state_->value;
    if ((state_->taken.fetch_add(1) + 1) % takers == 0) state_->value = T{};
    return value;
  }

 private:
  struct State {
    T value{};
    std::atomic<int> taken = 0;  // number of calls of take_as_one_of()
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

/// Steps of a pass. Each function except `shared_experts` adds the tasks of one chunk to the graph. `compute` and
/// `weight_gradients` are called only once, with chunk 0, if chunks are computed together.
struct PassSteps {
  std::function<void(size_t)> dispatch;
  // Adds tasks that need no rows from other ranks. Called once, before the first `compute`.
  std::function<void()> shared_experts;
  std::function<void(size_t)> compute, combine;
  std::function<void(size_t)> weight_gradients{};  // empty if the pass has no weight gradients
};

/// Runs `graph`, the graph of the layer's pass of this kind. Uses settings.runner, or runs the graph directly if the
/// runner is null.
void run_graph(const schedule::TaskGraph& graph, const PassSettings& settings, PassKind kind, Device device);

/// Buffers of the chunks of a pass.
enum class Buffers : uint8_t {
  own,      // each chunk has its own buffers
  bounded,  // chunks share two sets of buffers
};

class PassGraph {
 public:
  /// Makes the graph of a pass whose rows have the width, dtype and device of `like` [T, D]. In a bounded pass
  /// (Buffers::bounded), chunk i starts once chunk i - 2 has returned, and is computed after chunk i - 1. All tasks of
  /// such a pass are issued late (TaskSpec::issued_late): tasks create tensors when they are issued, so early issue
  /// would need memory for more chunks. The tasks communicate in PassSettings::lane_groups, if these are set. `routes`
  /// must outlive the graph.
  PassGraph(const Routes& routes, const Tensor& like, Buffers buffers);

  const Routes& routes;
  const ep::RoutingCounts& counts;
  const int64_t width;
  const Dtype dtype;
  const Device device;
  const bool bounded;
  const comm::ProcessGroup& all_to_all_group;
  const comm::NodeGroups* const nodes;  // levels of a hierarchical all-to-all; null: it is not hierarchical
  comm::Windows* const windows;         // windows in which rows are exchanged; null: rows are sent
  const comm::ProcessGroup& etp;
  const comm::ProcessGroup& tensor;  // tensor-parallel ranks

  /// Returns the chunks in the order in which add_steps() computes them. Throws like checked_steps().
  std::vector<size_t> compute_order() const;
  /// Calls the steps stage by stage if chunks are computed together, and otherwise in the schedule's issue order.
  /// Throws Error(usage) if it uses the issue order and the order is illegal.
  void add_steps(const PassSteps& steps);
  void run(PassKind kind) const { run_graph(graph_, routes.settings, kind, device); }
  const schedule::TaskGraph& graph() const { return graph_; }

  /// Adds a task to lane `lane`. The task starts after the tasks `after`; entries no_task are ignored. With
  /// schedule.moe.overlap: none, the task also starts after the task that was added before it.
  TaskId add(std::vector<TaskId> after, Lane lane, TaskKind kind, std::string name, Cost cost, schedule::TaskWork work);

  // The functions below define dependencies between chunks.
  /// Makes every dispatch wait for `task`, which must itself wait for first().
  void run_first(TaskId task) { first_ = task; }
  /// Returns the task of the last call of run_first(), or no_task.
  TaskId first() const { return first_; }
  /// Returns the task after which the next chunk may be dispatched. From the third chunk of a bounded pass on, this is
  /// the task that frees the chunk's buffers. Otherwise, it is first(). Call this function once per chunk.
  TaskId room_to_dispatch();
  /// Returns the tasks after which the next chunk may be computed, because they free its buffers. Returns none for the
  /// first chunk, and if the pass is not bounded.
  std::vector<TaskId> room_to_compute() const;
  /// Records the task that computes a chunk.
  void note_computed(size_t chunk, TaskId task);
  /// Records the last task of a chunk's return. Call this function once per chunk.
  void note_returned(size_t chunk, TaskId task);
  /// Records a task that completes the return of a set of rows (ReturnSet), if rows return in phases. Call this
  /// function for all such tasks of every set, instead of note_returned(). Such a pass has only one chunk.
  void note_set_returned(TaskId task) { set_return_tasks_.push_back(task); }
  /// Returns the tasks recorded by note_returned() or, if rows return in phases, by note_set_returned(). All rows have
  /// returned when all of these tasks are done.
  const std::vector<TaskId>& return_tasks() const { return counts.in_phases() ? set_return_tasks_ : return_tasks_; }
  /// Records a task that gathers returned rows of a chunk or set from all tensor-parallel ranks (RowCollection).
  void note_gathered(TaskId task) { gather_tasks_.push_back(task); }
  /// Returns the tasks after which all rows of results are on this rank: those recorded by note_gathered() or, if ranks
  /// gather no rows, return_tasks().
  const std::vector<TaskId>& result_tasks() const { return gather_tasks_.empty() ? return_tasks() : gather_tasks_; }

  /// Returns the format of rows with `row_weights` weights for each slot.
  RowFormat format(int64_t row_weights) const;
  /// True if etp ranks share an expert's width and exchange rows by the method `esp_exchange`.
  bool shares_width(ep::EspExchange esp_exchange) const {
    return counts.esp_exchange == esp_exchange && etp.size() > 1;
  }
  /// Returns the bytes of an unpacked row.
  int64_t row_bytes() const { return width * size_of(dtype); }

  /// Returns the cost of a transfer in `group`. `name` is the name of the group in Rates.
  static Cost transfer_cost(const comm::ProcessGroup& group, std::string name, int64_t sent, int64_t received);
  /// Returns the cost of an all-to-all in `group`. `group` is the all-to-all group of the pass if `level` is empty, and
  /// otherwise one of the two levels of that group.
  Cost all_to_all_cost(const comm::ProcessGroup& group, std::string_view level, const comm::Splits& splits,
                       const RowFormat& format) const;
  /// Returns the cost of an all-gather of rows in `group`. This rank has `mine` rows, and all ranks together have
  /// `all`.
  Cost all_gather_cost(const comm::ProcessGroup& group, int64_t mine, int64_t all) const {
    return transfer_cost(group, "tp", (group.size() - 1) * mine * row_bytes(), (all - mine) * row_bytes());
  }
  /// Returns the bytes that the hierarchical all-to-all copies on this rank as an intermediate rank.
  static int64_t passing_bytes(const ep::MovedRows& rows, const RowFormat& format);
  static Cost copy_cost(int64_t bytes);

 private:
  PassGraph(const Routes& routes, const Tensor& like, Buffers buffers, const PassGroups& groups);

  schedule::TaskGraph graph_{};
  TaskId first_ = no_task;
  size_t dispatched_ = 0;
  std::vector<size_t> computed_, combined_;           // chunks in the order of computation, and of return
  std::vector<TaskId> compute_tasks_, return_tasks_;  // by chunk: the tasks of note_computed() and note_returned()
  std::vector<TaskId> set_return_tasks_{};            // tasks of note_set_returned()
  std::vector<TaskId> gather_tasks_{};                // tasks of note_gathered()
};

/// Returns the name of a task, such as "dispatch.a2a[2]".
std::string task_name(std::string_view stage, std::string_view step, size_t chunk);

/// Returns the work of a task that calls `work`. The task is done once the stream of its lane has run everything that
/// `work` launched.
schedule::TaskWork on_lane(std::function<void(Stream&)> work);

}  // namespace hexad::moe
