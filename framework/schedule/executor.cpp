#include "framework/schedule/executor.h"

#include <algorithm>
#include <array>
#include <exception>
#include <latch>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>

#include "framework/base/clock.h"
#include "framework/base/error.h"
#include "framework/base/ordinal.h"
#include "framework/base/philox.h"
#include "framework/device/host_wait.h"
#include "framework/device/named_range.h"

namespace hexad::schedule {
namespace {

using base::now;

// A task that has been issued. The task is done when the lane has passed it and the asynchronous part is done.
struct Issued {
  Event passed, asynchronous;
  bool done() const { return passed.done() && asynchronous.done(); }
};

// Waits for all issued tasks. Tasks refer to data of the caller, so none may run after an exception leaves execute().
void settle(device::DeviceContext& context, const std::vector<Issued>& issued) noexcept {
  const auto wait_quietly = [](const Event& event) {
    try {
      event.wait();
    } catch (...) {  // ignored: another error is already propagating
    }
  };
  for (const Issued& task : issued) wait_quietly(task.asynchronous);
  for (int lane = 0; lane < device::lane_count; ++lane) wait_quietly(context.stream(static_cast<Lane>(lane)).record());
}

// Makes the other lanes of a device wait for the inputs of the graph, which the compute lane produces. On the host, the
// inputs are already complete.
void begin(device::DeviceContext& context) {
  if (context.on_host()) return;
  const Event made = context.compute().record();
  for (const Lane lane : {Lane::inter, Lane::intra, Lane::copy}) context.stream(lane).wait(made);
}

// Makes later work of the compute lane run after the graph. On the host, the calling thread waits for all tasks; on a
// device, the compute lane waits for them.
void finish(device::DeviceContext& context, const std::vector<Issued>& issued) {
  std::optional<device::Span> span;
  if (context.spans().recording() && context.on_host() && !std::ranges::all_of(issued, &Issued::done))
    span.emplace(context.spans(), "wait: lanes");
  for (const Issued& task : issued)
    for (const Event& event : {task.passed, task.asynchronous})
      if (context.on_host())
        event.wait();
      else
        context.compute().wait(event);
}

// Measured times, written by the threads that run lanes or complete events. These threads share ownership of the
// object, because they may write after an error has ended execute().
struct Stopwatch {
  explicit Stopwatch(size_t tasks)
      : on_lane(tasks), arrived(tasks), running(static_cast<std::ptrdiff_t>(tasks)), parts(tasks) {}
  std::vector<TaskTime> on_lane;
  std::vector<double> arrived;              // end of each asynchronous part; 0 if it was done when the task was issued
  std::latch running;                       // number of asynchronous parts whose end a host thread has yet to record
  std::vector<std::array<Event, 2>> marks;  // start and end of each task on a device's lanes
  // Ends of the asynchronous parts that a device does without a host thread; null for other parts.
  std::vector<std::shared_ptr<const device::DeviceMark>> parts;
};

// Asynchronous part of a task that a lane will issue. A lane that fails skips its remaining tasks. The asynchronous
// part of a skipped task fails when the lane destroys the work that would have issued the task. Without this failure,
// threads would wait for the part forever.
class LatePart {
 public:
  LatePart() = default;
  LatePart(const LatePart&) = delete;
  LatePart& operator=(const LatePart&) = delete;
  ~LatePart() {
    if (!issued_)
      device::complete(
          state_, std::make_exception_ptr(std::runtime_error("[executor] a task was skipped, because an earlier task "
                                                             "of its lane failed; see the error of that task")));
  }
  Event event() const { return Event(state_); }
  void issue(const Task& task) {
    issued_ = true;
    device::InlineStream here;
    try {
      device::follow(state_, task.work(here));
    } catch (...) {
      device::complete(state_, std::current_exception());
      throw;
    }
  }

 private:
  const std::shared_ptr<Event::State> state_ = Event::make_state();
  bool issued_ = false;
};

Event issue(const Task& task, Stream& lane) {
  std::optional<device::NamedRange> range;
  if (lane.on_device()) range.emplace(task.spec.name);
  // issued_late is ignored for the queue of a device. The device reuses memory in the order of issue, so early issue
  // costs no memory on a device.
  if (!task.spec.issued_late || !lane.starts_late()) return task.work(lane);
  const auto part = std::make_shared<LatePart>();
  const Event asynchronous = part->event();
  lane.run([&task, part] { part->issue(task); });
  return asynchronous;
}

// Makes `stream` wait for the task `before`, whose name is `name`. The trace of the rank shows the wait if the stream
// is inline and the task is not done.
void wait_for(const Issued& before, const std::string& name, Stream& stream, device::SpanLog& spans) {
  std::optional<device::Span> span;
  if (spans.recording() && stream.runs_at_once() && !before.done()) span.emplace(spans, "wait:", name);
  stream.wait(before.passed);
  stream.wait(before.asynchronous);
}

void measure_begin(const std::shared_ptr<Stopwatch>& watch, size_t task, Stream& stream) {
  if (stream.on_device())
    watch->marks.push_back({stream.record_timed(), {}});
  else
    stream.run([watch, task] { watch->on_lane[task].begin = now(); });
}

void measure_end(const std::shared_ptr<Stopwatch>& watch, size_t task, Stream& stream, const Event& asynchronous) {
  // Reads done() before the end mark is recorded. The end mark is not earlier than the end of the asynchronous part if
  // `over` is true.
  const bool over = asynchronous.done();
  if (stream.on_device())
    watch->marks.back()[1] = stream.record_timed();
  else
    stream.run([watch, task] { watch->on_lane[task].end = now(); });
  // Keeps the device's mark, because Event::then() would make this thread wait for the device.
  if (!over) watch->parts[task] = asynchronous.launched_already();
  if (over || watch->parts[task]) return watch->running.count_down();
  asynchronous.then([watch, task] {
    watch->arrived[task] = now();
    watch->running.count_down();
  });
}

double passed_at(const device::DeviceMark& mark) {
  if (!mark.passed()) {
    const device::HostWait named("times of tasks");
    mark.wait();
  }
  return mark.passed_at();
}

// Copies the times of the marks to `on_lane` and `arrived`. Waits until the device has passed the marks.
void read_marks(Stopwatch& watch) {
  for (size_t i = 0; i < watch.marks.size(); ++i) {
    watch.on_lane[i] = {passed_at(*watch.marks[i][0].launched()), passed_at(*watch.marks[i][1].launched())};
    // Ignores a mark without a time: it belongs to the task's own lane, whose end mark is later.
    if (const auto& part = watch.parts[i]; part && part->timed()) watch.arrived[i] = passed_at(*part);
  }
}

// Computes the times of the tasks from the measured times of their parts; see TaskTime. All tasks ended before `ended`.
std::vector<TaskTime> times_of(std::span<const Task> tasks, const Stopwatch& watch, double ended) {
  std::vector<TaskTime> times = watch.on_lane;
  for (size_t i = 0; i < tasks.size(); ++i) times[i].end = std::min(std::max(times[i].end, watch.arrived[i]), ended);
  // The completing thread may record the end time long after waiters have resumed, if threads share a core. A task
  // therefore ends at the latest when a successor begins, or when the host has waited for all tasks.
  for (size_t i = 0; i < tasks.size(); ++i)
    for (TaskId id : tasks[i].after) {
      double& end = times[id].end;
      end = std::min(end, times[i].begin);
    }
  std::array<double, device::lane_count> lane_end{};
  for (size_t i = 0; i < tasks.size(); ++i) {
    double& end = lane_end[base::ordinal(tasks[i].spec.lane)];
    times[i].begin = std::min(std::max(times[i].begin, end), times[i].end);
    end = std::max(end, times[i].end);
  }
  return times;
}

// True if the issuing thread must wait for the events that tasks of `lane` wait for. If the lane has a thread, that
// thread waits instead. The queue of a device waits only for the device's part of an event. The issuing thread waits
// for the host's part.
bool issuer_waits(const Stream& lane) { return lane.runs_at_once() || lane.on_device(); }

// Yields to the other micro-batch before the calling thread waits for communication (see execute()).
class Yields {
 public:
  Yields(std::span<const Task> tasks, Fibers* fibers)
      : tasks_(tasks), fibers_(fibers), awaited_(fibers ? tasks.size() : 0, char{0}) {}
  void before(size_t task, const Stream& stream) {
    if (!fibers_ || !issuer_waits(stream) || !await(task)) return;
    await(task_of_yield(task));
    fibers_->yield();
  }
  void at_the_end() {
    if (!fibers_) return;
    for (size_t i = 0; i < tasks_.size(); ++i)
      if (is_communication(tasks_[i].spec.kind) && awaited_[i] == 0) return fibers_->yield();
  }

 private:
  // Marks all direct and indirect predecessors of `task` as awaited. Returns true if any newly marked predecessor
  // communicates.
  bool await(size_t task) {
    bool communicates = false;
    std::vector<size_t> open{task};
    while (!open.empty()) {
      const size_t at = open.back();
      open.pop_back();
      for (const TaskId before : tasks_[at].after) {
        if (std::exchange(awaited_[before], char{1}) != 0) continue;
        communicates |= is_communication(tasks_[before].spec.kind);
        open.push_back(before);
      }
    }
    return communicates;
  }

  // Returns `task` or a later task. Before `task`, the calling thread yields for the communication on which the
  // returned task depends. If `task` is not a copy, returns `task`. If `task` is a copy, `next` is the next task that
  // is not a copy. Returns `next` if `next` directly depends on the copy, or on all direct predecessors of the copy.
  // Otherwise returns the copy. `next` may depend on more communication than the copy. With `next`, the thread yields
  // at the same point as on ranks whose graphs lack the copy.
  size_t task_of_yield(size_t task) const {
    size_t next = task;
    while (next < tasks_.size() && tasks_[next].spec.kind == TaskKind::copy) ++next;
    if (next == tasks_.size()) return task;
    const std::vector<TaskId>& after = tasks_[next].after;
    const auto waits_for = [&](TaskId before) { return std::ranges::find(after, before) != after.end(); };
    return waits_for(static_cast<TaskId>(task)) || std::ranges::all_of(tasks_[task].after, waits_for) ? next : task;
  }

  const std::span<const Task> tasks_;
  Fibers* const fibers_;
  std::vector<char> awaited_;  // for each task: 1 if the calling thread has waited for it, or for a task after it
};

// Implements execute(). `watch` is null if the tasks are not measured.
void run(const TaskGraph& graph, device::DeviceContext& context, const std::shared_ptr<Stopwatch>& watch,
         Fibers* fibers) {
  const auto tasks = graph.tasks();
  Yields yields(tasks, fibers);
  std::vector<Issued> issued;
  issued.reserve(tasks.size());
  try {
    begin(context);
    for (size_t i = 0; i < tasks.size(); ++i) {
      const Task& task = tasks[i];
      Stream& stream = context.stream(task.spec.lane);
      yields.before(i, stream);
      for (TaskId id : task.after) {
        wait_for(issued[id], tasks[id].spec.name, stream, context.spans());
      }
      if (watch) measure_begin(watch, i, stream);
      Event asynchronous = issue(task, stream);
      if (watch) measure_end(watch, i, stream, asynchronous);
      issued.push_back({stream.record(), std::move(asynchronous)});
    }
    yields.at_the_end();
    finish(context, issued);
  } catch (...) {
    settle(context, issued);
    throw;
  }
}

}  // namespace

void execute(const TaskGraph& graph, device::DeviceContext& context, std::vector<TaskTime>* times, Fibers* fibers) {
  if (times)
    *times = execute_measured(graph, context, fibers)();
  else
    run(graph, context, nullptr, fibers);
}

ReadTimes execute_measured(const TaskGraph& graph, device::DeviceContext& context, Fibers* fibers) {
  const auto watch = std::make_shared<Stopwatch>(graph.tasks().size());
  run(graph, context, watch, fibers);
  // The tasks of a device may end later, because the host does not wait for them.
  const double ended = context.on_host() ? now() : std::numeric_limits<double>::infinity();
  return [watch, ended, bare = without_work(graph)] {
    watch->running.wait();
    read_marks(*watch);
    return times_of(bare.tasks(), *watch, ended);
  };
}

std::vector<TaskId> shuffled_order(const TaskGraph& graph, uint64_t seed) {
  const auto tasks = graph.tasks();
  const base::Philox random(seed, base::Purpose::shuffle, "schedule");
  std::vector<std::vector<TaskId>> lanes(device::lane_count);  // remaining tasks of each lane, in reverse order
  for (TaskId id = static_cast<TaskId>(tasks.size()); id-- > 0;)
    lanes[base::ordinal(tasks[id].spec.lane)].push_back(id);

  std::vector<TaskId> order;
  std::vector<bool> done(tasks.size());
  const auto may_run = [&](TaskId id) {
    for (TaskId before : tasks[id].after)
      if (!done[before]) return false;
    return true;
  };
  while (order.size() < tasks.size()) {
    // The candidates are never empty: the first-inserted remaining task is the first of its lane and has no unfinished
    // predecessor.
    std::vector<std::vector<TaskId>*> candidates;
    for (auto& lane : lanes)
      if (!lane.empty() && may_run(lane.back())) candidates.push_back(&lane);
    auto& lane = *candidates[random.below(order.size(), candidates.size())];
    order.push_back(lane.back());
    done[lane.back()] = true;
    lane.pop_back();
  }
  return order;
}

void execute_shuffled(const TaskGraph& graph, device::DeviceContext& context, uint64_t seed) {
  begin(context);
  for (TaskId id : shuffled_order(graph, seed)) {
    const Task& task = graph.tasks()[id];
    Stream& stream = context.stream(task.spec.lane);
    const Event asynchronous = task.work(stream);
    stream.synchronize();
    asynchronous.wait();
  }
}

}  // namespace hexad::schedule
