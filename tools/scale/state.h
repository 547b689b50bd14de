// Folder of an experiment. An interrupted experiment continues from its folder.
//
//   DIR/experiment.json                the experiment and fingerprints of the recipes of its points
//   DIR/POINT/repeat-1/                run directory
//   DIR/POINT/repeat-1.json            state of this run
//   DIR/POINT/repeat-1.txt             output of this run
//   DIR/POINT/repeat-1.lock            lock of the process that executes this run
//   DIR/scale.lock                     lock of the process that executes all runs
//   DIR/scale.csv and other files      results (write_results())
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/io/file_lock.h"
#include "tools/scale/order.h"
#include "tools/scale/points.h"

namespace hexad::scale {

/// State of a run.
///   - waiting: not started
///   - started: running, killed or preempted
///   - failed: exceeded the time limit, ended with an exit code other than 0 without being preempted, or ended with
///     exit code 0 and incomplete metrics
///   - finished: ended with exit code 0 and complete metrics
enum class RunState : uint8_t { waiting, started, failed, finished };
constexpr auto enum_names(RunState) {
  return std::to_array<std::pair<RunState, std::string_view>>({{RunState::waiting, "waiting"},
                                                               {RunState::started, "started"},
                                                               {RunState::failed, "failed"},
                                                               {RunState::finished, "finished"}});
}

struct RunRecord {
  RunState state = RunState::waiting;
  int exit_code = 0;
  double seconds = 0;        // duration from start to end
  std::string reason{};      // reason of a failure
  int64_t beside = 0;        // largest number of other runs that the same process executed at the same time
  int64_t shared_cores = 0;  // number of cores that the ranks on this machine shared; 0: no core was shared, or unknown
  std::string program{};     // version and digest of the program that ran (train::program_identity()); empty: unknown
  std::vector<std::string> warnings{};  // distinct warnings of rank 0
};

class ExperimentFolder {
 public:
  /// Opens the folder of the experiment, or creates it. Throws Error(usage) that names the folder or file if the folder
  /// has other contents. These may be other files, an incomplete file, another experiment, or runs that the experiment
  /// did not start. `experiment` and `points` must outlive the object. An `exclusive` object holds a lock that excludes
  /// other exclusive objects of the folder. Throws Error(usage) if another process holds this lock.
  ExperimentFolder(const Experiment& experiment, const std::vector<LoadedPoint>& points, bool exclusive = false);

  std::string run_dir(const Execution& run) const { return base_of(run); }
  std::string output_of(const Execution& run) const { return base_of(run) + ".txt"; }
  std::string lock_of(const Execution& run) const { return base_of(run) + ".lock"; }

  /// Returns the record of a run; a run without a record is waiting. Throws Error(usage) if the file is no record.
  RunRecord record(const Execution& run) const;
  /// Records that a run starts. Removes the run directory of an earlier start that did not finish.
  void start(const Execution& run) const;
  void end(const Execution& run, const RunRecord& record) const;

  const std::filesystem::path& path() const { return dir_; }
  /// Returns the descriptor of the lock; none if the folder is not exclusive. Child processes inherit the descriptor,
  /// so the lock lasts until all child processes have ended.
  std::optional<int> lock_descriptor() const { return lock_ ? std::optional(lock_->descriptor()) : std::nullopt; }

 private:
  std::string base_of(const Execution& run) const;
  void require_new_folder() const;
  void take_lock();
  void require_same(const std::string& file, const std::string& contents) const;
  void require_own_runs() const;

  const Experiment& experiment_;
  const std::vector<LoadedPoint>& points_;
  std::filesystem::path dir_;
  std::optional<io::FileLock> lock_{};
};

/// Returns the ascending indices in `order` of the runs that are not finished. Returns the indices of all runs if the
/// experiment has no folder yet. Throws like ExperimentFolder.
std::vector<int64_t> unfinished_runs(const Experiment& experiment, const std::vector<LoadedPoint>& points,
                                     const std::vector<Execution>& order);

/// Creates the folder and its parents. Throws Error that names the folder if it cannot be created.
void make_folder(const std::filesystem::path& folder);

/// Returns the text of experiment.json. In this text, keys that do not affect any run, such as `cluster` and `minutes`,
/// have their defaults.
std::string identity_of(const ExperimentConfig& config, const std::vector<LoadedPoint>& points);

}  // namespace hexad::scale
