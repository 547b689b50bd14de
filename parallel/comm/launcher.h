// Launcher that started this process as a rank of a job, according to its environment.
#pragma once

#include <string>
#include <string_view>

namespace hexad::comm {

/// True if srun gave this process a PMIx of its own. Variables of mpirun in the environment are then meant for a
/// process around this job, such as the shell that called `sbatch`.
bool started_by_srun();
/// True if Open MPI's mpirun or its daemon started this process.
bool started_by_mpirun();

/// Returns `srun` with the options that a job needs. These select the process-management interface of `library` (a text
/// of MPI_Get_library_version) and end all ranks if one fails.
std::string srun_line(std::string_view library);
/// Returns srun_line(library) for the MPI library of this program.
std::string srun_line();

/// Checks the launcher's interface before MPI_Init. Throws Error(usage) if srun started several tasks without an
/// interface through which Open MPI could find the other ranks. MPI_Init would then fail with a message that blames the
/// installation. Prints a warning if only the interface of another library is available.
void require_interface();

}  // namespace hexad::comm
