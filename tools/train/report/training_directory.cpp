#include "tools/train/report/training_directory.h"

#include <unistd.h>

#include <filesystem>

#include <fmt/format.h>

#include "framework/device/context.h"
#include "framework/telemetry/logger.h"
#include "parallel/comm/node_groups.h"
#include "parallel/comm/text_collectives.h"
#include "tools/train/process/crash_report.h"
#include "tools/train/process/say.h"
#include "tools/train/process/version.h"

namespace hexad::train {
namespace {

std::optional<io::RunLock> lock_on_rank_0(const Recipe& recipe, const comm::World& world) {
  if (world.rank() != 0) return {};
  const auto phase = world.file_work().announce("taking the lock of " + recipe.run.dir);
  return io::RunLock::acquire(recipe.run.dir, say, {}, world.file_work());
}

// Takes the next generation of the run directory on rank 0. Returns this generation on all ranks. Throws
// Error(resource) on a node on which this generation is not visible. Collective.
io::RunGeneration next_generation(const Recipe& recipe, const comm::World& world) {
  std::string number;
  if (world.rank() == 0) {
    const auto phase = world.file_work().announce("starting a generation of " + recipe.run.dir);
    number = std::to_string(io::RunGeneration::take(recipe.run.dir).number());
  }
  device::DeviceContext host;
  const io::RunGeneration generation(recipe.run.dir, std::stoll(comm::broadcast_text(number, 0, world.group(), host)));
  if (comm::NodeGrid(world.group().node_of_rank()).place(world.rank()) == 0) {  // one rank of each node
    const auto phase = world.file_work().announce("looking for the generation of " + recipe.run.dir);
    generation.require_visible(world.node_name());
  }
  return generation;
}

std::filesystem::path log_path(const Recipe& recipe, int rank) {
  return std::filesystem::path(recipe.run.dir) / "log" / fmt::format("rank-{:04}.log", rank);
}

// Returns a description of the rank: "hexad 0.5.0 (x86-64-v3), rank 1 of 2, host a, pid 31".
std::string describe_rank(const comm::World& world) {
  return fmt::format("hexad {} ({}), rank {} of {}, host {}, pid {}", version, architecture, world.rank(), world.size(),
                     world.node_name(), ::getpid());
}

}  // namespace

// Takes the lock first, because all later steps write to the directory.
TrainingDirectory::TrainingDirectory(const Recipe& recipe, const comm::World& world)
    : lock_(lock_on_rank_0(recipe, world)),
      generation_(next_generation(recipe, world)),
      log_(telemetry::make_logger(log_path(recipe, world.rank()), world.rank(), spdlog::level::info)),
      file_(telemetry::file_only(*log_)) {
  note(describe_rank(world));
  report_crashes_to(log_path(recipe, world.rank()), world.rank());
}

void TrainingDirectory::require_held() const {
  if (lock_) lock_->require_held();
}

void TrainingDirectory::require_held_now() {
  if (!lock_) return;
  lock_->require_held_now();
  generation_.require_not_superseded();
}

std::function<void(const std::string&)> TrainingDirectory::info_function() const {
  return [log = log_](const std::string& text) { log->info(text); };
}

std::function<void(const std::string&)> TrainingDirectory::warn_function() const {
  return [log = log_](const std::string& text) { log->warn(text); };
}

}  // namespace hexad::train
