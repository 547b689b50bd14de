// All ranks of a job, as its launcher started them.
#pragma once

#include <functional>
#include <memory>

#include "parallel/comm/engine.h"
#include "parallel/comm/process_group.h"

namespace hexad::comm {

class World {
 public:
  /// Makes the world. Uses MPI if mpirun or srun started more than one rank. Otherwise the rank is alone, and MPI is
  /// not initialised. Throws Error(communication) or Error(usage) if the launcher and MPI disagree. Made and used by
  /// the rank's main thread.
  explicit World(CommEngine::Options options = {});
  /// Makes a world of ranks that are threads of this process, each on its own main thread. `ranks` outlives the world.
  /// Collective.
  explicit World(const ProcessGroup& ranks);
  /// Waits until the other ranks also destroy their worlds. If an exception propagates, ends the job instead, because
  /// the other ranks may be waiting for this rank. The exception's message is then lost: catch it first (with_world
  /// does).
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  /// Returns the group of all ranks, for control traffic. Its split() makes all further groups. The world outlives its
  /// groups.
  const ProcessGroup& group() const { return *group_; }
  const Topology& topology() const { return topology_; }
  int rank() const { return topology_.rank; }
  int size() const { return topology_.size; }
  /// Returns the number of this rank among the ranks of its node.
  int local_rank() const { return topology_.local_rank; }
  const std::string& node_name() const;
  /// Returns the object that announces this rank's file work. Ranks that wait for this work then do not report a hang.
  const base::FileWork& file_work() const { return file_work_; }

  /// Sets the guards, or the limits, of later operations. All ranks call it with the same values at the same place in
  /// their programs.
  void set_guards(const Guards& guards);
  void set_limits(const Limits& limits);
  /// Sets the priorities. All ranks call it with the same values, while only control traffic is in flight.
  void prioritize(const Priorities& priorities);

  /// Ends this process and the whole job within seconds. Print the reason before the call.
  [[noreturn]] void abort_job(ExitCode code);

 private:
  int exceptions_;                      // number of exceptions in flight when this world was made
  std::unique_ptr<CommEngine> engine_;  // null if there is only one rank
  base::FileWork file_work_;            // the engine's, if there is an engine
  Topology topology_;
  std::unique_ptr<ProcessGroup> group_;
};

/// Makes the world, runs `body` in it and returns its result. main() usually calls it. Prints an exception as "rank 3:
/// message" and ends the whole job with its exit code (1 for an exception that is not an Error).
int with_world(const std::function<int(World&)>& body, CommEngine::Options options = {});

/// Returns the number of ranks that a launcher announces in the environment of this process; 1 without a launcher.
int announced_world_size();

}  // namespace hexad::comm
