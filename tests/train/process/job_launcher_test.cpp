#include "tools/train/process/job_launcher.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace hexad::train {
namespace {

class Allocation : public testing::Test {
 protected:
  void SetUp() override { clear(); }
  void TearDown() override { clear(); }
  static void clear() {
    for (const char* name : {"SLURM_JOB_ID", "SLURM_NTASKS", "SLURM_JOB_CPUS_PER_NODE", "SLURM_CPUS_PER_TASK"})
      ::unsetenv(name);
  }
};

TEST_F(Allocation, HasAsManyRanksAsTasks) {
  ::setenv("SLURM_NTASKS", "4", 1);
  EXPECT_EQ(allocated_ranks(), 0);  // outside of an allocation
  ::setenv("SLURM_JOB_ID", "7", 1);
  EXPECT_EQ(allocated_ranks(), 4);
}

TEST_F(Allocation, HasProcessorsForRanksWithoutANumberOfTasks) {
  ::setenv("SLURM_JOB_ID", "7", 1);
  EXPECT_EQ(allocated_ranks(), 0);
  ::setenv("SLURM_JOB_CPUS_PER_NODE", "8(x2),4", 1);
  EXPECT_EQ(allocated_ranks(), 20);
  ::setenv("SLURM_CPUS_PER_TASK", "4", 1);
  EXPECT_EQ(allocated_ranks(), 5);
}

}  // namespace
}  // namespace hexad::train
