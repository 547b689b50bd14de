// All ranks of a job.
#pragma once

#include <functional>
#include <memory>

#include "parallel/comm/engine.h"
#include "parallel/comm/process_group.h"

namespace hexad::comm {

class World {
 public:
  /// Makes the world. Initialises MPI if a launcher (mpirun, mpiexec or srun) announces several ranks; otherwise, the
  /// world has one rank and does not use MPI. Throws like connect_mpi() (mpi_transport.h), and Error(usage) if the
  /// announced number is illegal. The world must be made and used on the rank's main thread.
  explicit World(CommEngine::Options options = {});
  /// Makes the world of a rank that is a thread of this process. Each rank must call this constructor on its own main
  /// thread. `ranks` must outlive the world. Collective.
  explicit World(const ProcessGroup& ranks);
  /// Waits until the other ranks also destroy their worlds, if the world uses MPI. Ends the job instead if an exception
  /// propagates, because the other ranks may be waiting for this rank. The message of the exception is then lost;
  /// with_world() catches the exception earlier and prints it.
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  /// Returns the group of all ranks, for control traffic. All other groups are split from it. The world must outlive
  /// its groups.
  const ProcessGroup& group() const { return *group_; }
  const Topology& topology() const { return topology_; }
  int rank() const { return topology_.rank; }
  int size() const { return topology_.size; }
  /// Returns the index of this rank among the ranks of its node; with MPI, HEXAD_LOCAL_RANK if it is set.
  int local_rank() const { return topology_.local_rank; }
  const std::string& node_name() const;
  /// Returns the object through which this rank announces file work. Ranks that wait for announced work do not report a
  /// hang while the work makes progress.
  const base::FileWork& file_work() const { return file_work_; }

  /// The next two functions set the guards (CommEngine::set_guards()) or the limits (CommEngine::limit()). All ranks
  /// must call these functions with the same values at the same point in their programs.
  void set_guards(const Guards& guards);
  void set_limits(const Limits& limits);
  /// Sets the priorities. All ranks must call this function with the same values while only control traffic is in
  /// flight.
  void prioritize(const Priorities& priorities);

  /// Ends this process and, within seconds, the whole job. Print the reason before the call.
  [[noreturn]] void abort_job(ExitCode code);

 private:
  int exceptions_;                      // number of exceptions in flight when this world was constructed
  std::unique_ptr<CommEngine> engine_;  // null if there is only one rank, or if the ranks are threads
  base::FileWork file_work_;            // shared with the engine, if there is an engine
  Topology topology_;
  std::unique_ptr<ProcessGroup> group_;
};

/// Makes the world, runs `body` in it and returns the result of `body`. Usually called by main(). Prints an exception
/// of `body` as "rank 3: message", and then ends the whole job with the exit code of base::failure_of().
int with_world(const std::function<int(World&)>& body, CommEngine::Options options = {});

/// Returns the number of ranks that the launcher announces in the environment; 1 if there is no launcher. Throws
/// Error(usage) if the announced number is illegal.
int announced_world_size();
/// Returns the rank that the launcher announces for this process; 0 if there is no launcher.
int announced_rank();

}  // namespace hexad::comm
