// The launcher that started this process as a rank of a job, determined from the environment.
#pragma once

#include <string>
#include <string_view>

namespace hexad::comm {

/// True if srun provides PMIx to this process. Environment variables of mpirun then belong to a process around this
/// job, such as the shell that called `sbatch`.
bool started_by_srun();
/// True if mpirun of Open MPI, or one of its daemons, started this process.
bool started_by_mpirun();

/// Returns an `srun` command with the options that a job needs: the process-management interface of `library` (the text
/// of MPI_Get_library_version), and the end of all ranks if one fails.
std::string srun_line(std::string_view library);
/// Returns srun_line(library) for the MPI library that this program uses.
std::string srun_line();

/// Checks the interface of the launcher before MPI_Init is called. Throws Error(usage) if srun started several tasks
/// without an interface through which Open MPI can find the other ranks; MPI_Init would fail with a message that blames
/// the installation. Prints a warning if only the interface of another library is available.
void require_interface();

}  // namespace hexad::comm
