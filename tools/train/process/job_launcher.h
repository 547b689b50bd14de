// Program that launches a job's ranks (mpirun or srun): its command line, and the time that the launcher gives ranks to
// end.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace hexad::train {

/// Returns the beginning of a command line that starts `ranks` ranks; the program's name follows it. The command is:
/// - inside a Slurm allocation: srun
/// - otherwise, with Open MPI: mpirun, such as "mpirun -np 4", with the flags that Open MPI requires on this machine
///   and for this user
/// - otherwise, with MPICH: the launcher of MPICH, without flags for the machine or the user
std::string launcher(int64_t ranks);

/// True if this process runs inside a Slurm allocation.
bool in_slurm_allocation();
/// Returns the number of ranks that fit into the Slurm allocation. This is the allocation's number of tasks. If the
/// number of tasks is unknown, it is the number of processors divided by the processors of a task. Returns 0 if both
/// are unknown, or outside of an allocation.
int64_t allocated_ranks();

/// Returns the id of the process that started this rank: Open MPI's mpirun, or mpirun's daemon on this node. Returns 0
/// under other launchers.
pid_t mpirun_process();

/// Returns the seconds that this rank's mpirun waits between SIGTERM and SIGKILL; none under other launchers. MPICH's
/// launcher (Hydra) waits until the ranks have ended.
std::optional<double> mpirun_patience();
/// Open MPI's parameter that sets mpirun_patience(): its name for `--mca`, and the name of its environment variable.
inline constexpr const char* patience_parameter = "odls_base_sigkill_timeout";
inline constexpr const char* patience_variable = "OMPI_MCA_odls_base_sigkill_timeout";

/// Returns launcher() for a training run. With Open MPI's mpirun, the command sets a delay before SIGKILL that suffices
/// for a save of about `save_seconds`.
std::string launcher_to_train(int64_t ranks, double save_seconds);
/// Returns one line that explains to users how a run can save before the launcher ends the job.
std::string explain_launcher();
/// Returns the delay between SIGTERM and SIGKILL, in whole seconds, that suffices if a step and a save together take
/// about `seconds`; at most 3600.
int64_t advised_patience(double seconds);
/// Returns a warning if this run's mpirun leaves less time before SIGKILL than a step and a save may take together;
/// otherwise an empty text.
std::string warn_of_short_patience(double step_seconds, double save_seconds);

}  // namespace hexad::train
