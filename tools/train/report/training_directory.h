// Run directory of a training run: its lock and this rank's log.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <spdlog/logger.h>

#include "framework/io/run_generation.h"
#include "framework/io/run_lock.h"
#include "parallel/comm/world.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

class TrainingDirectory {
 public:
  /// Locks the directory on rank 0 and takes its next generation, then opens this rank's log, which also receives crash
  /// reports. Throws Error(usage) if another job holds the directory. Throws Error(resource) if the directory cannot be
  /// written. Collective.
  TrainingDirectory(const Recipe& recipe, const comm::World& world);

  /// Throws Error(usage) if another job had taken over the directory at the last renewal of the lock.
  void require_held() const;
  /// Like require_held(), but checks now. Also throws Error(usage) if another job has started in the directory, even if
  /// it has ended since. Call it before writing files that another job may have written.
  void require_held_now();
  /// Generation of this job in the directory, on all ranks.
  const io::RunGeneration& generation() const { return generation_; }

  /// Logs in this rank's file, and on rank 0 also on the terminal. Call it on all ranks, with a text that concerns all
  /// ranks.
  void info(const std::string& text) const { log_->info(text); }
  void warn(const std::string& text) const { log_->warn(text); }
  /// Logs only in this rank's file.
  void note(const std::string& text) const { file_->info(text); }

  /// Returns info() and warn() as functions, which may outlive this object.
  std::function<void(const std::string&)> informer() const;
  std::function<void(const std::string&)> warner() const;
  spdlog::logger& logger() const { return *log_; }

 private:
  std::optional<io::RunLock> lock_;  // on rank 0 only
  io::RunGeneration generation_;
  std::shared_ptr<spdlog::logger> log_, file_;
};

}  // namespace hexad::train
