// The run directory of a run that trains: its lock and this rank's log.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <spdlog/logger.h>

#include "framework/io/run_lock.h"
#include "parallel/comm/world.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

class TrainingDirectory {
 public:
  /// Locks the directory on rank 0, then opens this rank's log, where crashes are reported, too. Throws Error(usage) if
  /// another job has the directory, Error(resource) if it cannot be written.
  TrainingDirectory(const Recipe& recipe, const comm::World& world);

  /// Throws Error(usage) if another job has taken over, as of the last renewal of the lock.
  void require_held() const;
  /// Like require_held(), but checks now: call it before writing files that another job may have written.
  void require_held_now();

  /// Logs also on rank 0's terminal, so call it on all ranks with a text that concerns all of them.
  void info(const std::string& text) const { log_->info(text); }
  void warn(const std::string& text) const { log_->warn(text); }
  /// Logs in this rank's file alone.
  void note(const std::string& text) const { file_->info(text); }

  /// info() and warn() as functions, which may outlive this object.
  std::function<void(const std::string&)> informer() const;
  std::function<void(const std::string&)> warner() const;
  spdlog::logger& logger() const { return *log_; }

 private:
  std::optional<io::RunLock> lock_;  // rank 0
  std::shared_ptr<spdlog::logger> log_, file_;
};

}  // namespace hexad::train
