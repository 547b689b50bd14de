// Detection of the launcher from environment variables.
#include "parallel/comm/launcher.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "framework/base/error.h"
#include "parallel/comm/world.h"

namespace hexad::comm {
namespace {

constexpr const char* variables[] = {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_SIZE",     "PMI_RANK",
                                     "MPI_LOCALRANKID",      "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "PMIX_RANK",
                                     "PMIX_NAMESPACE"};
const MpiLibrary open_mpi{.family = MpiFamily::open_mpi, .name = "Open MPI 4.1.4"};
const MpiLibrary mpich{.family = MpiFamily::mpich, .name = "MPICH 4.0.2"};

class Launcher : public testing::Test {
 protected:
  Launcher() {
    for (const char* name : variables) unsetenv(name);
  }
  static void mpirun(const char* ranks, const char* rank) {
    setenv("OMPI_COMM_WORLD_SIZE", ranks, 1);
    setenv("OMPI_COMM_WORLD_RANK", rank, 1);
  }
  static void hydra(const char* ranks, const char* rank) {
    setenv("PMI_SIZE", ranks, 1);
    setenv("PMI_RANK", rank, 1);
    setenv("MPI_LOCALRANKID", rank, 1);
  }
  static void expect_refused(const MpiLibrary& library, const std::string& text) {
    try {
      require_interface(library);
      FAIL() << "the launcher of another library is accepted";
    } catch (const base::Error& e) {
      EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
      EXPECT_EQ(e.code(), base::ExitCode::usage);
    }
  }
  static void srun_with_pmix(const char* tasks) {
    setenv("SLURM_STEP_NUM_TASKS", tasks, 1);
    setenv("PMIX_RANK", "0", 1);
    setenv("PMIX_NAMESPACE", "slurm.pmix.7.0", 1);
  }
};

TEST_F(Launcher, SrunLineNamesTheInterfaceOfTheLibrary) {
  EXPECT_EQ(srun_line("Open MPI v4.1.4, package: Debian"), "srun --mpi=pmix --kill-on-bad-exit=1");
  EXPECT_EQ(srun_line("MPICH Version:\t4.0.2"), "srun --mpi=pmi2 --kill-on-bad-exit=1");
  EXPECT_EQ(srun_line("Intel(R) MPI Library 2021.9"), "srun --mpi=pmi2 --kill-on-bad-exit=1");
}

TEST_F(Launcher, SrunWithoutPmixIsRefusedWithTheRequiredCommand) {
  setenv("SLURM_STEP_NUM_TASKS", "4", 1);
  try {
    require_interface(open_mpi);
    FAIL();
  } catch (const base::Error& e) {
    EXPECT_STREQ(e.what(),
                 "srun started 4 tasks without PMIx (PMIX_RANK is not set), which Open MPI needs to find the other "
                 "ranks: start with srun --mpi=pmix --kill-on-bad-exit=1");
    EXPECT_EQ(e.code(), base::ExitCode::usage);
  }
}

TEST_F(Launcher, IgnoresVariablesOfMpirunInsideAJobOfSrun) {
  srun_with_pmix("4");
  setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
  EXPECT_EQ(announced_world_size(), 4);
  EXPECT_FALSE(started_by_mpirun());
  EXPECT_NO_THROW(require_interface());
}

TEST_F(Launcher, RefusesALauncherOfAnotherLibraryByName) {
  mpirun("4", "1");
  EXPECT_NO_THROW(require_interface(open_mpi));
  expect_refused(mpich,
                 "Open MPI's mpirun (OMPI_COMM_WORLD_SIZE is '4') started this program, but the program uses MPICH "
                 "4.0.2: start with ");
  for (const char* name : variables) unsetenv(name);
  hydra("4", "1");
  EXPECT_NO_THROW(require_interface(mpich));
  expect_refused(
      open_mpi,
      "the mpiexec of MPICH or Intel MPI (PMI_SIZE is '4', MPI_LOCALRANKID is '1') started this program, but "
      "the program uses Open MPI 4.1.4: start with ");
}

TEST_F(Launcher, MayRunInsideALauncherOfAnotherLibrary) {
  mpirun("2", "1");
  hydra("8", "5");
  const auto first = [](MpiFamily family) { return std::string(rank_variables(family).front().size); };
  EXPECT_EQ(first(MpiFamily::open_mpi), "OMPI_COMM_WORLD_SIZE");
  EXPECT_EQ(first(MpiFamily::mpich), "PMI_SIZE");
  EXPECT_TRUE(started_by_mpirun(MpiFamily::open_mpi));
  EXPECT_FALSE(started_by_hydra(MpiFamily::open_mpi));
  EXPECT_FALSE(started_by_mpirun(MpiFamily::mpich));
  EXPECT_TRUE(started_by_hydra(MpiFamily::mpich));
  EXPECT_NO_THROW(require_interface(open_mpi));
  EXPECT_NO_THROW(require_interface(mpich));
}

TEST_F(Launcher, AnnouncesRankAndSizeTogether) {
  EXPECT_EQ(announced_rank(), 0);
  hydra("8", "5");
  EXPECT_EQ(announced_world_size(), 8);
  EXPECT_EQ(announced_rank(), 5);
  // Slurm also sets SLURM_PROCID in batch scripts, but SLURM_STEP_NUM_TASKS only in steps of srun.
  setenv("SLURM_PROCID", "3", 1);
  EXPECT_EQ(announced_rank(), 5);
}

TEST_F(Launcher, RecognisesMpirunInsideAStepOfSrun) {
  setenv("SLURM_STEP_NUM_TASKS", "2", 1);  // the tasks are mpirun's daemons
  setenv("PMIX_RANK", "0", 1);
  setenv("PMIX_NAMESPACE", "1407057921", 1);
  setenv("OMPI_COMM_WORLD_SIZE", "8", 1);
  EXPECT_EQ(announced_world_size(), 8);
  EXPECT_TRUE(started_by_mpirun());
}

}  // namespace
}  // namespace hexad::comm
