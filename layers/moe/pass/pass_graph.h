// The builder of a pass's task graph, to which dispatch, experts and combine add their tasks.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/schedule/task_graph.h"
#include "layers/moe/pass/routes.h"

namespace hexad::moe {

using schedule::Cost;
using schedule::Lane;
using schedule::TaskId;
using schedule::TaskKind;

constexpr TaskId no_task = -1;

/// Hands a value from the task that makes it to the later tasks that read or take it. Copies of a handoff share the
/// value. Taking empties it; a value that is only read stays until the graph is gone.
template <class T>
class Handoff {
 public:
  void put(T value) const { *value_ = std::move(value); }
  const T& read() const { return *value_; }
  T take() const { return std::exchange(*value_, T{}); }

 private:
  std::shared_ptr<T> value_ = std::make_shared<T>();
};

/// The steps of a pass by chunk: each adds tasks to the graph. In a pass whose chunks are computed together the steps
/// `compute` and `weights` are called once, with chunk 0.
struct PassSteps {
  std::function<void(size_t)> dispatch;
  std::function<void()> beside;  // once, before the first `compute`: what waits for no row
  std::function<void(size_t)> compute, combine;
  std::function<void(size_t)> weights{};  // empty: there are none
};

/// Runs `graph` as "LAYER NAME", by the settings' runner if there is one.
void run_graph(const schedule::TaskGraph& graph, const PassSettings& settings, std::string_view name, Device device);

class PassGraph {
 public:
  /// Rows are like those of `like` [T, D]. `bounded`: chunks share two sets of buffers. Then a chunk starts only when
  /// the one before the last has returned, is computed only when the one before is, and tensors are made when a task is
  /// issued, so all are issued late (TaskSpec::issued_late). `routes` outlives the graph.
  PassGraph(const Routes& routes, const Tensor& like, bool bounded);

  const Routes& routes;
  const ep::PlanCounts& counts;
  const int64_t width;
  const Dtype dtype;
  const Device device;
  const bool bounded;
  const comm::ProcessGroup& ranks;      // of the all-to-all
  const comm::NodeGroups* const nodes;  // its two levels; null: it takes one step
  const comm::ProcessGroup& etp;

  /// Calls the steps in the order that the schedule names. Throws Error(usage) if that order is illegal.
  void add_steps(const PassSteps& steps);
  void run(std::string_view name) const { run_graph(graph_, routes.settings, name, device); }
  const schedule::TaskGraph& graph() const { return graph_; }

  /// Adds a task of lane `lane`; `after` may have no_task among them.
  TaskId add(std::vector<TaskId> after, Lane lane, TaskKind kind, std::string name, Cost cost, schedule::TaskWork work);

  // Dependencies of chunks beside their own rows.
  /// Makes `task` precede every dispatch.
  void run_first(TaskId task) { first_ = task; }
  /// Returns the task that frees buffers for the next chunk to dispatch. Call it once a chunk.
  TaskId room_to_dispatch();
  /// Returns the tasks that free buffers for the next chunk to compute.
  std::vector<TaskId> room_to_compute() const;
  void note_computed(size_t chunk, TaskId task);
  void note_returned(size_t chunk, TaskId task);
  /// Returns the last task of each chunk: when all of them are done, all rows have returned.
  const std::vector<TaskId>& return_tasks() const { return returned_by_; }

  /// Returns the format of rows with `row_weights` weights for each slot.
  RowFormat format(int64_t row_weights) const;
  /// True if etp ranks share an expert's width and exchange rows by `esp_exchange`.
  bool shares_width(ep::EspExchange esp_exchange) const {
    return counts.esp_exchange == esp_exchange && etp.size() > 1;
  }
  /// Bytes of a row as it is computed.
  int64_t row_bytes() const { return width * size_of(dtype); }

  /// Returns the cost of a transfer in `group`, which rates call `name`.
  static Cost transfer(const comm::ProcessGroup& group, std::string name, int64_t sent, int64_t received);
  /// Returns the cost of rows sent in a group that is the all-to-all's or, with a `level`, one of its two.
  Cost exchange(const comm::ProcessGroup& group, std::string_view level, const comm::Splits& splits,
                const RowFormat& format) const;
  /// Returns the bytes that the hierarchical all-to-all copies on an intermediate rank.
  int64_t passing_bytes(size_t chunk, const RowFormat& format) const;
  static Cost copied(int64_t bytes);

 private:
  schedule::TaskGraph graph_{};
  TaskId first_ = no_task;
  size_t dispatched_ = 0;
  std::vector<size_t> computed_, combined_;        // chunks, in the order of these steps
  std::vector<TaskId> computed_by_, returned_by_;  // by chunk
};

/// "dispatch.a2a[2]".
std::string task_name(std::string_view stage, std::string_view step, size_t chunk);

/// Wraps work without an asynchronous part.
schedule::TaskWork on_lane(std::function<void(Stream&)> work);

}  // namespace hexad::moe
