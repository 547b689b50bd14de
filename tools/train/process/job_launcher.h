// Launcher of a job's ranks: its command line on this machine, and its time limit for ranks that have to end.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace hexad::train {

/// Returns the command line that starts `ranks` ranks of a program on this machine as this user, up to the program's
/// name. Inside a Slurm allocation, the command is srun. Otherwise, it is "mpirun -np 4" with the flags that Open MPI
/// requires.
std::string launcher(int64_t ranks);

/// True if this process runs inside a Slurm allocation, but was started by hand or by a script.
bool in_slurm_allocation();

/// Returns the process id of the mpirun that started this rank, or of mpirun's daemon on this node; 0 without mpirun.
pid_t mpirun_process();

/// Returns the seconds after which this rank's mpirun follows its SIGTERM with SIGKILL; none without mpirun.
std::optional<double> mpirun_patience();
/// Name of Open MPI's parameter for mpirun_patience(), for `--mca` and as an environment variable.
inline constexpr const char* patience_parameter = "odls_base_sigkill_timeout";
inline constexpr const char* patience_variable = "OMPI_MCA_odls_base_sigkill_timeout";

/// Returns launcher() for a training run. With mpirun, the command leaves time for a save of about `save_seconds`.
std::string launcher_to_train(int64_t ranks, double save_seconds);
/// Returns one line that explains how a run gets time to save before this launcher ends the job.
std::string explain_launcher();
/// Returns the whole seconds between SIGTERM and SIGKILL that suffice for a step and a save of about `seconds`
/// together.
int64_t advised_patience(double seconds);
/// Returns a warning if this run's mpirun leaves less time than a step and a save may take together; otherwise empty.
std::string warn_of_short_patience(double step_seconds, double save_seconds);

}  // namespace hexad::train
