// Execution of an experiment: its runs, one after the other or several at once, and the results of the finished runs.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tools/scale/results.h"
#include "tools/scale/room.h"
#include "tools/scale/state.h"

namespace hexad::scale {

struct ExperimentRequest {
  std::string program;                // path of the program whose command `train` runs a point
  std::string identity;               // version and digest of the program (train::program_identity())
  std::optional<int64_t> only_run{};  // index in shuffled_order(); none: all runs
  std::optional<Room> room{};         // places for simultaneous runs; none: runs execute one after the other
  std::function<void(const std::string& line)> info;
};

/// Counts of the runs after run_points(). `busy` counts the runs that another process was executing.
struct RunCounts {
  int64_t executed = 0, finished_before = 0, failed = 0, busy = 0;
  int first_failure = 0;   // exit code of the first failed run, `data` for incomplete metrics; 0: none
  bool preempted = false;  // true if a run was preempted or interrupted, or runs were not started because of a signal
};

/// Returns the command of a run as a list of words. `launcher` are the words that start its ranks.
std::vector<std::string> command_of(const Experiment& experiment, const Point& point,
                                    const std::vector<std::string>& launcher, const std::string& program,
                                    const std::string& run_dir);

/// Executes all runs that are not finished, in shuffled order. Up to `at_once` runs execute at the same time if
/// ExperimentRequest::room is set. Among the waiting runs of the lowest repeat, the next run is the first one for which
/// enough places are free. Runs of one point never execute at the same time. A run that ends with exit code 0 is
/// finished if its metrics have all of its steps; otherwise it has failed. A run that was killed, was preempted or
/// failed in an earlier call starts again from its first step. One call starts each run at most once. Skips runs that
/// another process is executing. Starts no run after a run was preempted. Before a signal ends this process, ends the
/// active runs and records the runs that have finished.
RunCounts run_points(const Experiment& experiment, const std::vector<LoadedPoint>& points,
                     const ExperimentFolder& folder, const ExperimentRequest& request);

/// Reads the metrics of the finished runs. Finished runs with incomplete metrics are left out and listed as damaged.
Results results_of(const Experiment& experiment, const std::vector<LoadedPoint>& points,
                   const std::vector<PointForecast>& forecasts, const ExperimentFolder& folder);

/// Writes scale.csv, scale.json, table.md and report.html to the folder.
void write_results(const Results& results, const ExperimentFolder& folder);

}  // namespace hexad::scale
