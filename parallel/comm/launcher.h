// Launcher that started this process as a rank of a job, according to its environment.
#pragma once

#include <string>
#include <string_view>

namespace hexad::comm {

/// True if srun gave this process a PMIx of its own. What mpirun left in the environment was then meant for a process
/// around this job, such as the shell that called `sbatch`.
bool started_by_srun();
/// True if Open MPI's mpirun or its daemon started this process.
bool started_by_mpirun();

/// `srun` with the options that a job needs: the process-management interface of `library`, as MPI_Get_library_version
/// names it, and the end of all ranks when one of them fails.
std::string srun_line(std::string_view library);
/// Like srun_line(library), for the MPI library of this program.
std::string srun_line();

/// Call before MPI_Init. Throws Error(usage) if srun started several tasks without an interface through which Open MPI
/// could find the other ranks: MPI_Init would fail with a text that blames the installation. Prints a warning where
/// only the interface of another library is there.
void require_interface();

}  // namespace hexad::comm
