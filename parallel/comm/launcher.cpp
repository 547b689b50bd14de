#include "parallel/comm/launcher.h"

#include <cstdio>
#include <cstdlib>

#include "framework/base/error.h"

namespace hexad::comm {
namespace {

constexpr RankVariables of_mpirun{.size = "OMPI_COMM_WORLD_SIZE", .rank = "OMPI_COMM_WORLD_RANK"};
constexpr RankVariables of_pmi{.size = "PMI_SIZE", .rank = "PMI_RANK"};  // Hydra, and srun --mpi=pmi2
constexpr RankVariables of_srun{.size = "SLURM_STEP_NUM_TASKS", .rank = "SLURM_PROCID"};
constexpr const char* local_rank_of_hydra = "MPI_LOCALRANKID";  // srun does not set this variable

std::string value_of(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}
bool is_set(const char* name) { return std::getenv(name) != nullptr; }

std::string srun_line_of(MpiFamily family) {
  return base::cat("srun --mpi=", family == MpiFamily::mpich ? "pmi2" : "pmix", " --kill-on-bad-exit=1");
}

// Throws Error(usage) that names the launcher and the library.
void refuse_launcher(const std::string& launcher, const MpiLibrary& library) {
  base::fail(base::ExitCode::usage, launcher, " started this program, but the program uses ", library.name,
             ": start with ", mpiexec_name(), ", or with ", srun_line_of(library.family));
}

}  // namespace

bool started_by_srun() { return value_of("PMIX_NAMESPACE").starts_with("slurm.pmix"); }

bool started_by_mpirun(MpiFamily family) {
  const bool hydra_is_inside = family == MpiFamily::mpich && is_set(local_rank_of_hydra);
  return is_set(of_mpirun.size) && !started_by_srun() && !hydra_is_inside;
}

bool started_by_hydra(MpiFamily family) {
  const bool mpirun_is_inside = family == MpiFamily::open_mpi && is_set(of_mpirun.size);
  return is_set(of_pmi.size) && is_set(local_rank_of_hydra) && !started_by_srun() && !mpirun_is_inside;
}

std::array<RankVariables, 3> rank_variables(MpiFamily family) {
  if (started_by_srun()) return {of_srun, of_pmi, of_mpirun};
  if (family == MpiFamily::mpich) return {of_pmi, of_mpirun, of_srun};
  return {of_mpirun, of_pmi, of_srun};
}

std::string mpiexec_name() { return HEXAD_MPIEXEC_NAME; }

std::string srun_line(std::string_view library) { return srun_line_of(mpi_library_of(library).family); }

std::string srun_line() { return srun_line_of(mpi_library().family); }

void require_interface(const MpiLibrary& library) {
  if (library.family == MpiFamily::mpich && started_by_mpirun(library.family))
    refuse_launcher(base::cat("Open MPI's mpirun (", of_mpirun.size, " is '", value_of(of_mpirun.size), "')"), library);
  if (library.family != MpiFamily::open_mpi) return;
  if (started_by_hydra(library.family))
    refuse_launcher(base::cat("the mpiexec of MPICH or Intel MPI (", of_pmi.size, " is '", value_of(of_pmi.size), "', ",
                              local_rank_of_hydra, " is '", value_of(local_rank_of_hydra), "')"),
                    library);
  const std::string tasks = value_of(of_srun.size);
  if (started_by_mpirun(library.family) || is_set("PMIX_RANK") || tasks.empty()) return;
  const std::string reason = base::cat("srun started ", tasks,
                                       " tasks without PMIx (PMIX_RANK is not set), which Open MPI needs to find the "
                                       "other ranks: start with ",
                                       srun_line_of(library.family));
  const std::string rank = value_of(of_pmi.rank);
  if (rank.empty()) base::fail(base::ExitCode::usage, reason);
  // Only warns, because an Open MPI that was built with PMI2 works without PMIx. The program cannot query how Open MPI
  // was built.
  if (rank == "0") std::fprintf(stderr, "hexad: MPI_Init may fail now: %s\n", reason.c_str());
}

}  // namespace hexad::comm
