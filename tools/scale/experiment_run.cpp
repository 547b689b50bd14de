#include "tools/scale/experiment_run.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "framework/base/atomic_file.h"
#include "framework/base/counted.h"
#include "framework/base/error.h"
#include "framework/base/units.h"
#include "framework/io/file_lock.h"
#include "tools/scale/child_process.h"
#include "tools/scale/results_page.h"
#include "tools/scale/room.h"
#include "tools/scale/run_metrics.h"
#include "tools/scale/run_output.h"
#include "tools/train/process/job_launcher.h"

namespace hexad::scale {

namespace fs = std::filesystem;

namespace {

constexpr int preempted_code = static_cast<int>(base::ExitCode::preempted);
constexpr int damaged_code = static_cast<int>(base::ExitCode::data);

std::string named_program(const std::string& identity) { return identity.empty() ? "an unknown program" : identity; }

// A run that has not started, with its number for messages, such as "3 of 30".
struct Waiting {
  Execution execution;
  std::string number;
};

// A run that executes.
struct Active {
  int64_t child;
  Execution execution;
  std::string name;
  io::FileLock lock;
  std::vector<std::string> places;
  int64_t beside = 0;  // largest number of other runs that executed at the same time
};

class Runner {
 public:
  Runner(const Experiment& experiment, const std::vector<LoadedPoint>& points, const ExperimentFolder& folder,
         const ExperimentRequest& request)
      : experiment_(experiment),
        points_(points),
        folder_(folder),
        request_(request),
        places_(request.room ? request.room->places : std::vector<std::string>()) {}

  RunCounts run() {
    const ExperimentConfig& c = experiment_.config;
    const std::vector<Execution> all = shuffled_order(std::ssize(points_), c.repeats, c.seed);
    std::vector<Execution> order;
    for (int64_t i = 0; i < std::ssize(all); ++i) {
      if (request_.only_run && i != *request_.only_run) continue;
      order.push_back(all[i]);
      waiting_.push_back({all[i], fmt::format("{} of {}", i + 1, all.size())});
    }
    warn_of_shared_cores(order);
    warn_of_other_programs(order);
    while (!waiting_.empty() || !active_.empty()) {
      start_runs();
      if (active_.empty()) continue;
      const auto [child, end] = children_.wait();
      finish(child, end);
      // After a signal, no other run starts, even if the last active run has finished.
      if (children_.interrupted() && !waiting_.empty()) counts_.preempted = true;
      if (counts_.preempted) waiting_.clear();
    }
    children_.end_if_interrupted();
    return counts_;
  }

 private:
  // Prints one warning for each number of ranks with which runs share cores.
  void warn_of_shared_cores(const std::vector<Execution>& order) const {
    std::set<int64_t> numbers;
    for (const Execution& e : order) {
      const Point& point = point_of(e).point;
      const int64_t cores = shared_cores_of(point);
      if (cores > 0 && numbers.insert(point.ranks).second)
        request_.info(fmt::format("warning: {} share {}, so their steps take longer than on separate cores",
                                  base::counted(point.ranks, "rank"), base::counted(cores, "core")));
    }
  }

  // Prints a warning for each program other than this one that executed finished runs.
  void warn_of_other_programs(const std::vector<Execution>& order) const {
    std::map<std::string, int64_t> runs;
    for (const Execution& e : order)
      if (const RunRecord record = folder_.record(e);
          record.state == RunState::finished && record.program != request_.identity)
        ++runs[named_program(record.program)];
    for (const auto& [program, count] : runs)
      request_.info(fmt::format("warning: the results of {} are from another program: {}; this program is {}",
                                base::counted(count, "finished run"), program, request_.identity));
  }

  // Starts waiting runs of one repeat. Removes at least one run from waiting_ if no run is active.
  void start_runs() {
    if (waiting_.empty()) return;
    const int64_t repeat = waiting_.front().execution.repeat, most = request_.room ? experiment_.config.at_once : 1;
    for (auto w = waiting_.begin();
         w != waiting_.end() && w->execution.repeat == repeat && std::ssize(active_) < most;) {
      const std::optional<std::vector<std::string>> places =
          is_active(w->execution.point) ? std::nullopt : places_.take(places_of(w->execution));
      if (!places) {
        ++w;
        continue;
      }
      const Waiting next = std::move(*w);
      w = waiting_.erase(w);
      if (!start(next, *places)) places_.give_back(*places);
    }
  }

  // Starts a run. Returns false if the run is already finished, or if another process is executing it.
  bool start(const Waiting& waiting, const std::vector<std::string>& places) {
    const Execution& e = waiting.execution;
    const std::string name = fmt::format("{}: {}, repeat {}", waiting.number, point_of(e).point.name, e.repeat);
    make_folder(fs::path(folder_.lock_of(e)).parent_path());
    std::optional<io::FileLock> lock = io::FileLock::take(folder_.lock_of(e), io::FileLock::Mode::exclusive, true);
    if (!lock) {
      ++counts_.busy;
      request_.info(fmt::format("{}: skipped; another process is running it", name));
      return false;
    }
    if (folder_.record(e).state == RunState::finished) {
      ++counts_.finished_before;
      return false;
    }
    folder_.start(e);
    const std::vector<std::string> words =
        command_of(experiment_, point_of(e).point, launcher_of(e, places), request_.program, folder_.run_dir(e));
    std::vector<int> locks{lock->descriptor()};
    if (const std::optional<int> of_folder = folder_.lock_descriptor()) locks.push_back(*of_folder);
    const int64_t child = children_.start(words, folder_.output_of(e), experiment_.config.minutes * 60, locks);
    active_.push_back({.child = child, .execution = e, .name = name, .lock = std::move(*lock), .places = places});
    for (Active& active : active_) active.beside = std::max(active.beside, std::ssize(active_) - 1);
    return true;
  }

  void finish(int64_t child, const ChildEnd& end) {
    const auto active = std::ranges::find(active_, child, &Active::child);
    base::require(active != active_.end(), "[scale] child ", child, " ended; expected the child of an active run");
    ++counts_.executed;
    // A signal to this process ends the active runs. These runs do not count as failed, and count as finished only if
    // their metrics are complete.
    const bool ended_early = end.exit_code == preempted_code && !end.timed_out;
    if (ended_early || (children_.interrupted() && record_of(*active, end).state != RunState::finished)) {
      counts_.preempted = true;
      request_.info(fmt::format("{}: {}; run the command again to continue", active->name,
                                ended_early ? "preempted" : "interrupted"));
    } else {
      record(*active, end);
    }
    places_.give_back(active->places);
    active_.erase(active);
  }

  void record(const Active& active, const ChildEnd& end) {
    const RunRecord record = record_of(active, end);
    for (const std::string& warning : record.warnings)
      if (warnings_.insert(warning).second) request_.info(fmt::format("{}: warning: {}", active.name, warning));
    folder_.end(active.execution, record);
    request_.info(record.state == RunState::finished
                      ? fmt::format("{}: {}", active.name, base::precise_duration(end.seconds))
                      : fmt::format("{}: failed: {}; output: {}", active.name, record.reason,
                                    folder_.output_of(active.execution)));
    if (record.state != RunState::failed) return;
    ++counts_.failed;
    if (counts_.first_failure == 0)
      counts_.first_failure = end.exit_code == 0 && !end.timed_out ? damaged_code : end.exit_code;
  }

  RunRecord record_of(const Active& active, const ChildEnd& end) const {
    RunRecord record{.state = RunState::failed,
                     .exit_code = end.exit_code,
                     .seconds = end.seconds,
                     .beside = active.beside,
                     .shared_cores = shared_cores_of(point_of(active.execution).point),
                     .program = request_.identity,
                     .warnings = warnings_in(folder_.output_of(active.execution))};
    if (end.timed_out)
      record.reason =
          fmt::format("the run took longer than {} min, the value of the key minutes", experiment_.config.minutes);
    else if (end.exit_code == 0)
      record.reason = problem_of_metrics(active.execution);
    else
      record.reason = fmt::format("exit code {}: {}", end.exit_code, failure_line(folder_.output_of(active.execution)));
    if (record.reason.empty()) record.state = RunState::finished;
    return record;
  }
  // Returns the reason why a run that ended with exit code 0 is not finished; empty if its metrics are complete.
  std::string problem_of_metrics(const Execution& e) const {
    const std::string problem = read_run_metrics(folder_.run_dir(e), experiment_.config.steps_of_run()).problem;
    return problem.empty() ? problem : fmt::format("exit code 0, but the metrics are incomplete: {}", problem);
  }

  // True if a run of this point executes. Another run of the point has to wait, because problem_of_room() counts the
  // memory of each point once.
  bool is_active(int64_t point) const {
    return std::ranges::any_of(active_, [point](const Active& active) { return active.execution.point == point; });
  }
  const LoadedPoint& point_of(const Execution& e) const { return points_.at(e.point); }
  int64_t places_of(const Execution& e) const {
    return request_.room ? scale::places_of(point_of(e), request_.room->kind) : 0;
  }
  // Returns scale::shared_cores() of this machine; 0 in a Slurm allocation or if runs execute simultaneously, because
  // each rank then has its own cores.
  int64_t shared_cores_of(const Point& point) const {
    return request_.room || train::in_slurm_allocation() ? 0 : shared_cores(point, cores_);
  }
  std::vector<std::string> launcher_of(const Execution& e, const std::vector<std::string>& places) const {
    const Point& point = point_of(e).point;
    if (request_.room) return launcher_on(request_.room->kind, places, point.ranks);
    return launcher_alone(point);
  }

  const Experiment& experiment_;
  const std::vector<LoadedPoint>& points_;
  const ExperimentFolder& folder_;
  const ExperimentRequest& request_;
  Places places_;
  std::vector<Waiting> waiting_{};
  std::vector<Active> active_{};
  Children children_{};  // destroyed before active_, so children end before their locks are released
  RunCounts counts_{};
  const int64_t cores_ = cores_here();
  std::set<std::string> warnings_{};  // warnings that have been printed
};

}  // namespace

std::vector<std::string> command_of(const Experiment& experiment, const Point& point,
                                    const std::vector<std::string>& launcher, const std::string& program,
                                    const std::string& run_dir) {
  std::vector<std::string> words = launcher;
  words.insert(words.end(), {program, std::string("train"), experiment.beside(experiment.config.recipe)});
  for (std::string& text : overrides_of_run(experiment.config, point, run_dir)) words.push_back(std::move(text));
  return words;
}

RunCounts run_points(const Experiment& experiment, const std::vector<LoadedPoint>& points,
                     const ExperimentFolder& folder, const ExperimentRequest& request) {
  return Runner(experiment, points, folder, request).run();
}

Results results_of(const Experiment& experiment, const std::vector<LoadedPoint>& points,
                   const std::vector<PointForecast>& forecasts, const ExperimentFolder& folder) {
  Results results{.title = experiment.path};
  for (const AxisConfig& axis : experiment.config.vary) results.axes.push_back(axis.name);
  for (size_t p = 0; p < points.size(); ++p) {
    const Point& point = points[p].point;
    ResultRow row{.point = point.name, .ranks = point.ranks, .values = point.values, .forecast = forecasts[p]};
    std::vector<std::vector<telemetry::StepMetrics>> runs;
    for (int64_t repeat = 1; repeat <= experiment.config.repeats; ++repeat) {
      const Execution e{.point = static_cast<int64_t>(p), .repeat = repeat};
      const RunRecord record = folder.record(e);
      if (record.state == RunState::failed) {
        ++row.failed;
        row.reason = record.reason;
      }
      if (record.state != RunState::finished) continue;
      RunMetrics metrics = read_run_metrics(folder.run_dir(e), experiment.config.steps_of_run());
      if (!metrics.problem.empty()) {
        results.damaged.push_back(fmt::format("{}; remove {} and {}.json to repeat the run", metrics.problem,
                                              folder.run_dir(e), folder.run_dir(e)));
        continue;
      }
      runs.push_back(std::move(metrics.steps));
      ++results.programs[named_program(record.program)];
      row.beside = std::max(row.beside, record.beside);
      row.shared_cores = std::max(row.shared_cores, record.shared_cores);
    }
    if (!runs.empty()) row.measured = measurement_of(runs, experiment.config.warmup_steps);
    results.rows.push_back(std::move(row));
  }
  compare_with_first(results);
  return results;
}

void write_results(const Results& results, const ExperimentFolder& folder) {
  const auto path = [&](const char* name) { return (folder.path() / name).string(); };
  base::write_file(path("scale.csv"), csv_of(results));
  base::write_file(path("scale.json"), json_of(results));
  base::write_file(path("table.md"), markdown_of(results));
  base::write_file(path("report.html"), results_page(results));
}

}  // namespace hexad::scale
