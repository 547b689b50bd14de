// All ranks of a job, as its launcher started them.
#pragma once

#include <functional>
#include <memory>

#include "parallel/comm/engine.h"
#include "parallel/comm/process_group.h"

namespace hexad::comm {

class World {
 public:
  /// Under mpirun or srun with more than one rank: MPI. Otherwise alone, and MPI is not even initialised. Throws
  /// Error(communication) or Error(usage) when the launcher and MPI disagree. Made and used by the rank's main thread.
  explicit World(CommEngine::Options options = {});
  /// Ranks that are threads of this process, as their own main threads make it. `ranks` outlives the world. Collective.
  explicit World(const ProcessGroup& ranks);
  /// Waits for the other ranks to come to their ends, too. When an exception passes through, ends the job instead, and
  /// its message is lost: the others may be waiting for this rank. Catch it before (with_world does).
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  /// All ranks, for control traffic; its split() makes the others. The world outlives its groups.
  const ProcessGroup& group() const { return *group_; }
  const Topology& topology() const { return topology_; }
  int rank() const { return topology_.rank; }
  int size() const { return topology_.size; }
  /// Among the ranks of this node.
  int local_rank() const { return topology_.local_rank; }
  const std::string& node_name() const;
  /// Returns the object that announces this rank's file work: ranks that wait for it do not take that for a hang.
  const base::FileWork& file_work() const { return file_work_; }

  /// Apply from now on; the same on all ranks, at the same place of their programs.
  void set_guards(const Guards& guards);
  void set_limits(const Limits& limits);
  /// All ranks call it alike, while nothing but control traffic is in flight.
  void prioritize(const Priorities& priorities);

  /// Ends this process and the whole job within seconds. Print the reason first.
  [[noreturn]] void abort_job(ExitCode code);

 private:
  int exceptions_;                      // in flight when this world was made
  std::unique_ptr<CommEngine> engine_;  // null: alone
  base::FileWork file_work_;            // the engine's, if there is one
  Topology topology_;
  std::unique_ptr<ProcessGroup> group_;
};

/// Makes the world, runs `body` in it and returns its result, as main() usually does. An exception is printed as "rank
/// 3: message" and ends the whole job with its exit code (1 for an exception that is not an Error).
int with_world(const std::function<int(World&)>& body, CommEngine::Options options = {});

/// Number of ranks that a launcher announces in the environment of this process; 1 without a launcher.
int announced_world_size();

}  // namespace hexad::comm
