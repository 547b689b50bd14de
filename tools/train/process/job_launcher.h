// The launcher of a job's ranks: its command line on this machine, and its patience when it ends them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace hexad::train {

/// Command line before the program that starts `ranks` of it here, as this user. Inside an allocation of Slurm: srun;
/// else "mpirun -np 4" with the flags without which Open MPI refuses.
std::string launcher(int64_t ranks);

/// True if this process was started by hand or by a script inside an allocation of Slurm.
bool in_slurm_allocation();

/// Process id of the mpirun, or of its daemon on this node, that started this rank; 0 if neither did.
pid_t mpirun_process();

/// Seconds after which this rank's mpirun follows its SIGTERM with SIGKILL; none if no mpirun started it.
std::optional<double> mpirun_patience();
/// Parameter of Open MPI that says so, as `--mca` takes it, and as a variable of the environment.
inline constexpr const char* patience_parameter = "odls_base_sigkill_timeout";
inline constexpr const char* patience_variable = "OMPI_MCA_odls_base_sigkill_timeout";

/// launcher() of a training. mpirun leaves time for a save of about `save_seconds` there.
std::string launcher_to_train(int64_t ranks, double save_seconds);
/// One line that explains how a run which this launcher ends gets the time to save.
std::string explain_launcher();
/// Whole seconds between SIGTERM and SIGKILL that suffice for a step and a save of about `seconds` together.
int64_t advised_patience(double seconds);
/// A warning if the mpirun of this run leaves less time than a step and a save may take together; else empty.
std::string warn_of_short_patience(double step_seconds, double save_seconds);

}  // namespace hexad::train
