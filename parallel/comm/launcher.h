// Detection, from environment variables, of the launcher that started this process as a rank of a job.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "parallel/comm/mpi_library.h"

namespace hexad::comm {

/// True if srun provides PMIx (a process-management interface) to this process. Variables of mpirun in the environment
/// then belong to an outer process, such as the shell that called `sbatch`.
bool started_by_srun();
/// True if Open MPI's mpirun, or one of its daemons, started this process. False if Hydra started a program of the
/// family mpich inside a job of mpirun: the variables of mpirun then belong to an outer process.
bool started_by_mpirun(MpiFamily family = mpi_library().family);
/// True if Hydra, the launcher (mpiexec) of MPICH and Intel MPI, started this process. False if mpirun started a
/// program of the family open_mpi inside a job of Hydra.
bool started_by_hydra(MpiFamily family = mpi_library().family);

/// Environment variables by which a launcher announces the number of ranks, and the rank of a process.
struct RankVariables {
  const char* size;
  const char* rank;
};
/// Returns the variables of all known launchers. The first launcher in the list whose variables are set has started
/// this process.
std::array<RankVariables, 3> rank_variables(MpiFamily family = mpi_library().family);

/// Returns the name of the MPI library's launcher for messages: mpirun, or for example mpiexec.mpich.
std::string mpiexec_name();
/// Returns an `srun` command whose options select the process-management interface of `library` (the text of
/// MPI_Get_library_version), and end all ranks if one rank fails.
std::string srun_line(std::string_view library);
/// Returns the same command for the MPI library that this program uses.
std::string srun_line();

/// Checks that the launcher belongs to the MPI library. Must be called before MPI_Init: if the launcher belongs to
/// another library, MPI_Init makes each rank a separate job or prints a misleading error message. Throws Error(usage),
/// which names the launcher and the library, if the launcher belongs to another library. Also throws this error if srun
/// started the program without an interface through which Open MPI can find the other ranks. Rank 0 prints a warning if
/// srun provides only PMI2, with which Open MPI may be unable to find the other ranks. Does not check libraries of
/// MpiFamily::other.
void require_interface(const MpiLibrary& library = mpi_library());

}  // namespace hexad::comm
