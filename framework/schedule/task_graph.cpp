#include "framework/schedule/task_graph.h"

#include <iterator>

#include "framework/base/error.h"
#include "framework/base/ordinal.h"

namespace hexad::schedule {

std::string_view name_of(TaskKind kind) {
  constexpr std::string_view names[] = {"all_to_all", "all_gather", "reduce_scatter", "all_reduce", "send",
                                        "compute",    "copy"};
  static_assert(std::size(names) == kind_count);
  return names[base::ordinal(kind)];
}

bool is_communication(TaskKind kind) { return kind != TaskKind::compute && kind != TaskKind::copy; }

TaskId TaskGraph::add(TaskSpec spec, std::vector<TaskId> after, TaskWork work) {
  const TaskId id = static_cast<TaskId>(tasks_.size());
  for (TaskId before : after)
    base::require(0 <= before && before < id, "[schedule] task '", spec.name, "' (", id, ") comes after task ", before,
                  ", which is not yet in the graph; expected an earlier task");
  base::require(work != nullptr, "[schedule] task '", spec.name, "' has no work; expected a function");
  tasks_.push_back({std::move(spec), std::move(after), std::move(work)});
  return id;
}

std::string TaskGraph::to_string() const {
  std::string text;
  for (int l = 0; l < device::lane_count; ++l) {
    const Lane lane = static_cast<Lane>(l);
    std::string line;
    for (const Task& task : tasks_) {
      if (task.spec.lane != lane) continue;
      line += ' ' + task.spec.name;
      for (size_t i = 0; i < task.after.size(); ++i) line += (i ? "," : "(") + tasks_[task.after[i]].spec.name;
      if (!task.after.empty()) line += ')';
    }
    if (!line.empty()) text += base::cat(text.empty() ? "" : " | ", name_of(lane), ":", line);
  }
  return text;
}

TaskGraph without_work(const TaskGraph& graph) {
  TaskGraph bare;
  for (const Task& task : graph.tasks()) bare.add(task.spec, task.after, [](Stream&) { return Event{}; });
  return bare;
}

}  // namespace hexad::schedule
