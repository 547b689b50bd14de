// Check of the time that mpirun leaves a run for its last save when mpirun ends the job.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace hexad::train {

/// Warns once if mpirun leaves less time between SIGTERM and SIGKILL than a step and a save take together.
class SavePatience {
 public:
  explicit SavePatience(std::function<void(const std::string&)> warn) : warn_(std::move(warn)) {}

  /// Starts the checks with the estimated seconds of a save.
  void expect_save(double seconds);
  /// Updates the check with the measured seconds of a step.
  void stepped(double seconds);
  /// Updates the check with the measured seconds of a save.
  void saved(double seconds);

 private:
  void compare();

  const std::function<void(const std::string&)> warn_;
  double fastest_step_ = 0;             // in seconds; 0: unknown
  std::optional<double> save_seconds_;  // seconds of the next save; none: unknown, or the warning has been given
};

}  // namespace hexad::train
