// Execution of an experiment: its runs one after the other, and the results of the finished runs.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tools/scale/results.h"
#include "tools/scale/state.h"

namespace hexad::scale {

struct RunRequest {
  std::string program;                  // path of the program whose command `train` runs a point
  std::optional<int64_t> only_point{};  // none: all points
  std::function<void(const std::string& line)> say;
};

/// Counts of the runs after run_points().
struct RunCounts {
  int64_t executed = 0, finished_before = 0, failed = 0, busy = 0;
  int first_failure = 0;   // exit code of the first failed run; 0: none
  bool preempted = false;  // true if a run was preempted and the remaining runs were not started
};

/// Returns the command of a run as a list of words.
std::vector<std::string> command_of(const Experiment& experiment, const Point& point, const std::string& program,
                                    const std::string& run_dir);

/// Executes all runs that are not finished, in shuffled order. A run that was killed or that failed starts again from
/// its first step. Skips runs that another process is executing.
RunCounts run_points(const Experiment& experiment, const std::vector<LoadedPoint>& points,
                     const ExperimentFolder& folder, const RunRequest& request);

/// Reads the metrics of the finished runs. Throws Error(data) that names the run directory if a finished run lacks some
/// of its steps.
Results results_of(const Experiment& experiment, const std::vector<LoadedPoint>& points,
                   const std::vector<PointForecast>& forecasts, const ExperimentFolder& folder);

/// Writes scale.csv, scale.json, table.md and report.html to the folder.
void write_results(const Results& results, const ExperimentFolder& folder);

}  // namespace hexad::scale
