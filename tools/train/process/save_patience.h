// Checks that mpirun gives a run enough time for its last save when mpirun ends the job.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace hexad::train {

/// Warns once if mpirun's delay between SIGTERM and SIGKILL may be too short for a step and a save. Compares the delay
/// with the fastest step so far.
class SavePatience {
 public:
  explicit SavePatience(std::function<void(const std::string&)> warn) : warn_(std::move(warn)) {}

  /// Starts checking, with an estimate of the seconds that a save takes.
  void expect_save(double seconds);
  /// Checks again after a step that took `seconds`.
  void stepped(double seconds);
  /// Replaces the estimate after a save that took `seconds`, and checks again. Does nothing if there is no estimate.
  void saved(double seconds);

 private:
  void compare();

  const std::function<void(const std::string&)> warn_;
  double fastest_step_ = 0;             // seconds of the fastest step; 0: unknown
  std::optional<double> save_seconds_;  // estimated seconds of a save; none: unknown, or the warning has been given
};

}  // namespace hexad::train
