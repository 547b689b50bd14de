// Run directory during training: its lock and generation, and this rank's log.
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
  /// Locks the directory, and takes its next generation number, on rank 0. Then opens the log of each rank, which also
  /// receives crash reports. Throws Error(usage) if another job has locked the directory. Throws Error(data) or
  /// Error(resource) if its files cannot be read or written. Collective.
  TrainingDirectory(const Recipe& recipe, const comm::World& world);

  /// Throws Error(usage) on rank 0 if another job had taken over the directory at the last renewal of the lock.
  void require_held() const;
  /// Like require_held(), but checks the files now. Also throws Error(usage) on rank 0 if a later job has started in
  /// the directory, even if that job has ended. Call it before writing files that another job may have written.
  void require_held_now();
  /// Returns the generation of this job in the directory. Available on all ranks.
  const io::RunGeneration& generation() const { return generation_; }

  /// Writes a message to this rank's log file, and on rank 0 also to the terminal.
  void info(const std::string& text) const { log_->info(text); }
  void warn(const std::string& text) const { log_->warn(text); }
  /// Writes only to this rank's log file.
  void note(const std::string& text) const { file_->info(text); }

  /// Returns info() or warn() as a function, which may outlive this object.
  std::function<void(const std::string&)> info_function() const;
  std::function<void(const std::string&)> warn_function() const;
  spdlog::logger& logger() const { return *log_; }

 private:
  std::optional<io::RunLock> lock_;  // on rank 0 only
  io::RunGeneration generation_;
  std::shared_ptr<spdlog::logger> log_, file_;
};

}  // namespace hexad::train
