#include "framework/schedule/executor.h"

#include <chrono>
#include <exception>
#include <latch>

#include "framework/base/philox.h"

namespace hexad::schedule {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// A task that was issued: done when both its lane has passed it and its asynchronous part is over.
struct Issued {
  Event passed, asynchronous;
};

// Tasks refer to data of the caller, so nothing may still run when an exception leaves execute().
void settle(device::DeviceContext& context, const std::vector<Issued>& issued) noexcept {
  const auto wait_quietly = [](const Event& event) {
    try {
      event.wait();
    } catch (...) {  // the first error is already on its way
    }
  };
  for (const Issued& task : issued) wait_quietly(task.asynchronous);
  for (int lane = 0; lane < device::lane_count; ++lane) wait_quietly(context.stream(static_cast<Lane>(lane)).record());
}

// Written by whichever thread completes a task; shared with it, because it may come after an error ended execute().
struct Stopwatch {
  explicit Stopwatch(size_t tasks) : times(tasks), running(static_cast<std::ptrdiff_t>(tasks)) {}
  std::vector<TaskTime> times;
  std::latch running;
};

void measure_end(const std::shared_ptr<Stopwatch>& watch, size_t task, const Issued& issued) {
  issued.passed.then([watch, task, asynchronous = issued.asynchronous] {
    asynchronous.then([watch, task] {
      watch->times[task].end = now();
      watch->running.count_down();
    });
  });
}

}  // namespace

void execute(const TaskGraph& graph, device::DeviceContext& context, std::vector<TaskTime>* times) {
  const auto tasks = graph.tasks();
  std::vector<Issued> issued;
  issued.reserve(tasks.size());
  const auto watch = times ? std::make_shared<Stopwatch>(tasks.size()) : nullptr;
  try {
    for (size_t i = 0; i < tasks.size(); ++i) {
      const Task& task = tasks[i];
      Stream& stream = context.stream(task.spec.lane);
      for (TaskId id : task.after) {
        const Issued& before = issued[static_cast<size_t>(id)];
        stream.wait(before.passed);
        stream.wait(before.asynchronous);
      }
      if (watch) stream.run([watch, i] { watch->times[i].begin = now(); });
      Event asynchronous = task.work(stream);
      issued.push_back({stream.record(), std::move(asynchronous)});
      if (watch) measure_end(watch, i, issued.back());
    }
    for (const Issued& task : issued) task.passed.wait(), task.asynchronous.wait();
  } catch (...) {
    settle(context, issued);
    throw;
  }
  if (!watch) return;
  watch->running.wait();
  *times = std::move(watch->times);
}

std::vector<TaskId> shuffled_order(const TaskGraph& graph, uint64_t seed) {
  const auto tasks = graph.tasks();
  const base::Philox random(seed, base::Purpose::shuffle, "schedule");
  std::vector<std::vector<TaskId>> lanes(device::lane_count);  // what is left of each, last first
  for (TaskId id = static_cast<TaskId>(tasks.size()); id-- > 0;)
    lanes[static_cast<size_t>(tasks[static_cast<size_t>(id)].spec.lane)].push_back(id);

  std::vector<TaskId> order;
  std::vector<bool> done(tasks.size());
  const auto may_run = [&](TaskId id) {
    for (TaskId before : tasks[static_cast<size_t>(id)].after)
      if (!done[static_cast<size_t>(before)]) return false;
    return true;
  };
  while (order.size() < tasks.size()) {
    // Never empty: of the heads of the lanes, the one inserted first has nothing left to come after.
    std::vector<std::vector<TaskId>*> candidates;
    for (auto& lane : lanes)
      if (!lane.empty() && may_run(lane.back())) candidates.push_back(&lane);
    auto& lane = *candidates[random.below(order.size(), candidates.size())];
    order.push_back(lane.back());
    done[static_cast<size_t>(lane.back())] = true;
    lane.pop_back();
  }
  return order;
}

void execute_shuffled(const TaskGraph& graph, device::DeviceContext& context, uint64_t seed) {
  for (TaskId id : shuffled_order(graph, seed)) {
    const Task& task = graph.tasks()[static_cast<size_t>(id)];
    Stream& stream = context.stream(task.spec.lane);
    const Event asynchronous = task.work(stream);
    stream.synchronize();
    asynchronous.wait();
  }
}

}  // namespace hexad::schedule
