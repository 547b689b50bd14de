// Detection, from environment variables, of the launcher that started this process as a rank of a job.
#pragma once

#include <string>
#include <string_view>

namespace hexad::comm {

/// True if srun provides PMIx (a process-management interface) to this process. Variables of mpirun in the environment
/// then belong to an outer process, such as the shell that called `sbatch`.
bool started_by_srun();
/// True if Open MPI's mpirun, or one of its daemons, started this process.
bool started_by_mpirun();

/// Returns an `srun` command with the options that a job needs. They select the process-management interface of
/// `library` (the text of MPI_Get_library_version), and end all ranks if one rank fails.
std::string srun_line(std::string_view library);
/// Returns srun_line(library) for the MPI library that this program uses.
std::string srun_line();

/// Checks the process-management interface of the launcher. Call it before MPI_Init, whose error message would be
/// misleading. Throws Error(usage) if srun started several tasks without an interface through which Open MPI can find
/// the other ranks. Prints a warning if there is only the interface of another library.
void require_interface();

}  // namespace hexad::comm
