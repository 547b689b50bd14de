// Facts about the launcher that a process finds in its environment.
#include "parallel/comm/launcher.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "framework/base/error.h"
#include "parallel/comm/world.h"

namespace hexad::comm {
namespace {

constexpr const char* variables[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE",  "PMI_RANK",
                                     "SLURM_STEP_NUM_TASKS", "PMIX_RANK", "PMIX_NAMESPACE"};

class Launcher : public testing::Test {
 protected:
  Launcher() {
    for (const char* name : variables) unsetenv(name);
  }
  static void srun_with_pmix(const char* tasks) {
    setenv("SLURM_STEP_NUM_TASKS", tasks, 1);
    setenv("PMIX_RANK", "0", 1);
    setenv("PMIX_NAMESPACE", "slurm.pmix.7.0", 1);
  }
};

TEST_F(Launcher, SrunNeedsTheInterfaceOfTheLibrary) {
  EXPECT_EQ(srun_line("Open MPI v4.1.4, package: Debian"), "srun --mpi=pmix --kill-on-bad-exit=1");
  EXPECT_EQ(srun_line("MPICH Version:\t4.0.2"), "srun --mpi=pmi2 --kill-on-bad-exit=1");
  EXPECT_EQ(srun_line("Intel(R) MPI Library 2021.9"), "srun --mpi=pmi2 --kill-on-bad-exit=1");
}

TEST_F(Launcher, SrunWithoutPmixIsRefusedWithTheRequiredCommand) {
  if (srun_line().find("pmix") == std::string::npos) GTEST_SKIP() << "this test needs Open MPI";
  setenv("SLURM_STEP_NUM_TASKS", "4", 1);
  try {
    require_interface();
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
