#include "layers/moe/pass/pass_graph.h"

#include <algorithm>

#include "framework/schedule/executor.h"
#include "parallel/ep/offsets.h"

namespace hexad::moe {

using namespace base;
namespace {

// Returns the groups in which the tasks of a pass communicate. A bounded pass uses settings.lane_groups, if they are
// set, because its tasks are issued late. Otherwise, a pass uses settings.groups and settings.tensor.
PassGroups groups_of(const PassSettings& settings, Buffers buffers) {
  const bool late = buffers == Buffers::bounded;
  return late && settings.lane_groups ? *settings.lane_groups : PassGroups{settings.groups, settings.tensor};
}

}  // namespace

PassGraph::PassGraph(const Routes& r, const Tensor& like, Buffers buffers)
    : PassGraph(r, like, buffers, groups_of(r.settings, buffers)) {}

PassGraph::PassGraph(const Routes& r, const Tensor& like, Buffers buffers, const PassGroups& groups)
    : routes(r),
      counts(r.plan.counts),
      width(like.dim(1)),
      dtype(like.dtype()),
      device(like.device()),
      bounded(buffers == Buffers::bounded),
      all_to_all_group(counts.all_to_all_group(groups.experts)),
      nodes(counts.node_groups(groups.experts)),
      windows(counts.windows),
      etp(*groups.experts.etp),
      tensor(*groups.tensor),
      compute_tasks_(counts.chunks.size(), no_task),
      return_tasks_(counts.chunks.size(), no_task) {}

std::vector<size_t> PassGraph::compute_order() const {
  if (counts.merged) return {0};
  std::vector<size_t> order;
  for (const auto& [stage, chunk] : checked_steps(routes.settings.order, counts.chunks.size(), bounded))
    if (stage == Stage::compute) order.push_back(chunk);
  return order;
}

void PassGraph::add_steps(const PassSteps& steps) {
  const size_t chunks = counts.chunks.size();
  if (counts.merged) {
    for (size_t c = 0; c < chunks; ++c) steps.dispatch(c);
    steps.shared_experts();
    steps.compute(0);
    for (size_t c = 0; c < chunks; ++c) steps.combine(c);
    if (steps.weight_gradients) steps.weight_gradients(0);
    return;
  }
  const IssueOrder& order = routes.settings.order;
  const std::vector<IssueStep> in_order = checked_steps(order, chunks, bounded);
  if (counts.joined)
    if (const std::string why = in_turn_problem(in_order); !why.empty())
      fail(ExitCode::usage, "schedule.moe.order (", order.name, "), for ", chunks, " chunks: ", why);
  for (const auto& [stage, chunk] : in_order) {
    switch (stage) {
      case Stage::dispatch:
        steps.dispatch(chunk);
        break;
      case Stage::compute:
        if (computed_.empty()) steps.shared_experts();
        steps.compute(chunk);
        break;
      case Stage::combine:
        steps.combine(chunk);
        break;
      case Stage::weight_gradients:
        if (steps.weight_gradients) steps.weight_gradients(chunk);
    }
  }
}

void run_graph(const schedule::TaskGraph& graph, const PassSettings& settings, PassKind kind, Device device) {
  if (settings.runner)
    settings.runner->run({settings.name, kind}, graph, device.context());
  else
    schedule::execute(graph, device.context());
}

TaskId PassGraph::add(std::vector<TaskId> after, Lane lane, TaskKind kind, std::string name, Cost cost,
                      schedule::TaskWork work) {
  std::erase(after, no_task);
  const TaskId previous = static_cast<TaskId>(graph_.tasks().size()) - 1;
  if (routes.settings.schedule.in_sequence() && previous != no_task &&
      std::ranges::find(after, previous) == after.end())
    after.push_back(previous);
  return graph_.add({lane, std::move(name), std::move(cost), kind, bounded}, std::move(after), std::move(work));
}

TaskId PassGraph::room_to_dispatch() {
  const size_t before = dispatched_++;
  return bounded && before >= 2 ? return_tasks_[combined_[before - 2]] : first_;
}

std::vector<TaskId> PassGraph::room_to_compute() const {
  std::vector<TaskId> after;
  const size_t before = computed_.size();
  if (bounded && before >= 1) after.push_back(compute_tasks_[computed_[before - 1]]);
  if (bounded && before >= 2) after.push_back(return_tasks_[computed_[before - 2]]);
  return after;
}

void PassGraph::note_computed(size_t chunk, TaskId task) {
  computed_.push_back(chunk);
  compute_tasks_[chunk] = task;
}

void PassGraph::note_returned(size_t chunk, TaskId task) {
  combined_.push_back(chunk);
  return_tasks_[chunk] = task;
}

RowFormat PassGraph::format(int64_t row_weights) const {
  return {routes.settings.schedule.wire, width, dtype, row_weights * counts.slots_per_row,
          routes.settings.wire_kernels};
}

Cost PassGraph::transfer_cost(const comm::ProcessGroup& group, std::string name, int64_t sent, int64_t received) {
  return {.wire_bytes = sent,
          .received_bytes = received,
          .group = std::move(name),
          .group_size = group.size(),
          .crosses_nodes = group.crosses_nodes()};
}

Cost PassGraph::all_to_all_cost(const comm::ProcessGroup& group, std::string_view level, const comm::Splits& splits,
                                const RowFormat& format) const {
  // Counts only rows that are sent to other ranks.
  const auto to_others = [&](const std::vector<int64_t>& rows) {
    return (ep::sum_of(rows) - rows[group.rank()]) * format.row_bytes();
  };
  return transfer_cost(group, cat(counts.esp_exchange == ep::EspExchange::direct ? "experts" : "ep", level),
                       to_others(splits.send), to_others(splits.receive));
}

int64_t PassGraph::passing_bytes(const ep::MovedRows& rows, const RowFormat& format) {
  return ep::sum_of(rows.steps->inside.receive) * format.row_bytes();
}

Cost PassGraph::copy_cost(int64_t bytes) {
  Cost cost;
  cost.copy_bytes = bytes;
  return cost;
}

std::string task_name(std::string_view stage, std::string_view step, size_t chunk) {
  return cat(stage, ".", step, "[", chunk, "]");
}

schedule::TaskWork on_lane(std::function<void(Stream&)> work) {
  return [work = std::move(work)](Stream& s) {
    work(s);
    return device::Event{};
  };
}

}  // namespace hexad::moe
