#include "parallel/comm/launcher.h"

#include <mpi.h>

#include <array>
#include <cstdio>
#include <cstdlib>

#include "framework/base/error.h"

namespace hexad::comm {
namespace {

std::string library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);  // MPI permits this call before MPI_Init
  return {text.data(), static_cast<size_t>(length)};
}

// True if `library` uses the process-management interface PMI2: MPICH, and Intel MPI, which is derived from MPICH.
bool uses_pmi2(std::string_view library) {
  return library.find("MPICH") != library.npos || library.find("Intel(R) MPI") != library.npos;
}

bool is_open_mpi(std::string_view library) { return library.starts_with("Open MPI"); }

std::string value_of(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}

}  // namespace

bool started_by_srun() { return value_of("PMIX_NAMESPACE").starts_with("slurm.pmix"); }

bool started_by_mpirun() { return std::getenv("OMPI_COMM_WORLD_SIZE") && !started_by_srun(); }

std::string srun_line(std::string_view library) {
  return base::cat("srun --mpi=", uses_pmi2(library) ? "pmi2" : "pmix", " --kill-on-bad-exit=1");
}

std::string srun_line() { return srun_line(library_version()); }

void require_interface() {
  const std::string library = library_version(), tasks = value_of("SLURM_STEP_NUM_TASKS");
  if (!is_open_mpi(library) || started_by_mpirun() || std::getenv("PMIX_RANK") || tasks.empty()) return;
  const std::string reason = base::cat("srun started ", tasks,
                                       " tasks without PMIx (PMIX_RANK is not set), which Open MPI needs to find the "
                                       "other ranks: start with ",
                                       srun_line(library));
  const std::string rank = value_of("PMI_RANK");
  if (rank.empty()) base::fail(base::ExitCode::usage, reason);
  // Only warns, because an Open MPI that was built with PMI2 works without PMIx, and the program cannot query how Open
  // MPI was built.
  if (rank == "0") std::fprintf(stderr, "hexad: if MPI_Init fails now: %s\n", reason.c_str());
}

}  // namespace hexad::comm
