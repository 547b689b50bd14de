#include "tools/scale/experiment_run.h"

#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "framework/base/atomic_file.h"
#include "framework/base/error.h"
#include "framework/base/units.h"
#include "framework/io/file_lock.h"
#include "framework/telemetry/metrics_json.h"
#include "tools/scale/child_process.h"
#include "tools/scale/results_page.h"
#include "tools/train/process/job_launcher.h"

namespace hexad::scale {

namespace fs = std::filesystem;

namespace {

constexpr int preempted_code = static_cast<int>(base::ExitCode::preempted);

// Returns the last line of a file that is not empty.
std::string last_line(const std::string& path) {
  std::ifstream in(path);
  std::string last;
  for (std::string line; std::getline(in, line);)
    if (line.find_first_not_of(" \t\r") != std::string::npos) last = line;
  return last;
}

class Runner {
 public:
  Runner(const Experiment& experiment, const std::vector<LoadedPoint>& points, const ExperimentFolder& folder,
         const RunRequest& request)
      : experiment_(experiment), points_(points), folder_(folder), request_(request) {}

  RunCounts run() {
    const ExperimentConfig& c = experiment_.config;
    std::vector<Execution> order;
    for (const Execution& e : shuffled_order(std::ssize(points_), c.repeats, c.seed))
      if (!request_.only_point || e.point == *request_.only_point) order.push_back(e);
    for (size_t i = 0; i < order.size() && !counts_.preempted; ++i)
      execute(order[i], fmt::format("{} of {}", i + 1, order.size()));
    return counts_;
  }

 private:
  void execute(const Execution& e, const std::string& number) {
    const std::string name =
        fmt::format("{}: {}, repeat {}", number, points_.at(static_cast<size_t>(e.point)).point.name, e.repeat);
    make_folder(fs::path(folder_.lock_of(e)).parent_path());
    const std::optional<io::FileLock> lock =
        io::FileLock::take(folder_.lock_of(e), io::FileLock::Mode::exclusive, true);
    if (!lock) {
      ++counts_.busy;
      return request_.say(fmt::format("{}: skipped; another process is running it", name));
    }
    if (folder_.record(e).state == RunState::finished) {
      ++counts_.finished_before;
      return;
    }
    const Point& point = points_.at(static_cast<size_t>(e.point)).point;
    folder_.start(e);
    const ChildEnd end = run_child(command_of(experiment_, point, request_.program, folder_.run_dir(e)),
                                   folder_.output_of(e), experiment_.config.minutes * 60, lock->descriptor());
    ++counts_.executed;
    if (end.exit_code == preempted_code && !end.timed_out) {
      counts_.preempted = true;
      return request_.say(fmt::format("{}: preempted; run the command again to continue", name));
    }
    const RunRecord record = record_of(e, end);
    folder_.end(e, record);
    request_.say(record.state == RunState::finished
                     ? fmt::format("{}: {}", name, base::precise_duration(end.seconds))
                     : fmt::format("{}: failed: {}; output: {}", name, record.reason, folder_.output_of(e)));
    if (record.state != RunState::failed) return;
    ++counts_.failed;
    if (counts_.first_failure == 0) counts_.first_failure = end.exit_code;
  }

  RunRecord record_of(const Execution& e, const ChildEnd& end) const {
    const bool done = end.exit_code == 0 && !end.timed_out;
    RunRecord record{
        .state = done ? RunState::finished : RunState::failed, .exit_code = end.exit_code, .seconds = end.seconds};
    if (end.timed_out)
      record.reason = fmt::format("longer than {} min, the limit of the key minutes", experiment_.config.minutes);
    else if (!done)
      record.reason = fmt::format("exit code {}: {}", end.exit_code, last_line(folder_.output_of(e)));
    return record;
  }

  const Experiment& experiment_;
  const std::vector<LoadedPoint>& points_;
  const ExperimentFolder& folder_;
  const RunRequest& request_;
  RunCounts counts_;
};

std::vector<telemetry::StepMetrics> steps_of(const Experiment& experiment, const std::string& run_dir) {
  const std::string path = (fs::path(run_dir) / "metrics.jsonl").string();
  telemetry::MetricsHistory history = telemetry::read_metrics(path);
  const int64_t wanted = experiment.config.steps_of_run();
  if (const int64_t last = history.steps.empty() ? 0 : history.steps.back().step; last != wanted)
    base::fail(base::ExitCode::data, path, " ends at step ", last, ", but the finished run had ", wanted,
               " steps; remove ", run_dir, ".json to run it again");
  return std::move(history.steps);
}

}  // namespace

std::vector<std::string> command_of(const Experiment& experiment, const Point& point, const std::string& program,
                                    const std::string& run_dir) {
  std::vector<std::string> words = words_of(point.launcher.empty() ? train::launcher(point.ranks) : point.launcher);
  words.insert(words.end(), {program, std::string("train"), experiment.beside(experiment.config.recipe)});
  for (std::string& text : overrides_of_run(experiment.config, point, run_dir)) words.push_back(std::move(text));
  return words;
}

RunCounts run_points(const Experiment& experiment, const std::vector<LoadedPoint>& points,
                     const ExperimentFolder& folder, const RunRequest& request) {
  return Runner(experiment, points, folder, request).run();
}

Results results_of(const Experiment& experiment, const std::vector<LoadedPoint>& points,
                   const std::vector<PointForecast>& forecasts, const ExperimentFolder& folder) {
  Results results{.title = experiment.path};
  for (const AxisConfig& axis : experiment.config.vary) results.axes.push_back(axis.name);
  for (size_t p = 0; p < points.size(); ++p) {
    std::vector<std::vector<telemetry::StepMetrics>> runs;
    for (int64_t repeat = 1; repeat <= experiment.config.repeats; ++repeat) {
      const Execution e{.point = static_cast<int64_t>(p), .repeat = repeat};
      if (folder.record(e).state == RunState::finished) runs.push_back(steps_of(experiment, folder.run_dir(e)));
    }
    const Point& point = points[p].point;
    ResultRow row{.point = point.name, .ranks = point.ranks, .values = point.values, .forecast = forecasts[p]};
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
