// Warnings about saves that take longer than mpirun waits between SIGTERM and SIGKILL.
#include "tools/train/process/save_patience.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tools/train/process/job_launcher.h"

namespace hexad::train {
namespace {

// Environment of a rank of an Open MPI job whose mpirun waits ten seconds.
class Patience : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
    ::setenv(patience_variable, "10", 1);
    ::unsetenv("PMIX_NAMESPACE");
    ::unsetenv("MPI_LOCALRANKID");
  }
  void TearDown() override {
    ::unsetenv("OMPI_COMM_WORLD_SIZE");
    ::unsetenv(patience_variable);
  }

  std::vector<std::string> warnings;
  SavePatience patience{[this](const std::string& text) { warnings.push_back(text); }};
};

TEST_F(Patience, WarnsOfALongEstimate) {
  patience.expect_save(9);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(warnings[0].starts_with("a save takes about")) << warnings[0];
}

TEST_F(Patience, WarnsOfLongStepsUnlessOneWasFast) {
  patience.expect_save(1);
  patience.stepped(2);
  patience.stepped(20);
  EXPECT_TRUE(warnings.empty());
  SavePatience slow([this](const std::string& text) { warnings.push_back(text); });
  slow.expect_save(1);
  slow.stepped(20);
  EXPECT_EQ(warnings.size(), 1u);
}

TEST_F(Patience, WarnsOfASlowSaveAtOnce) {
  patience.expect_save(1);
  patience.stepped(1);
  patience.saved(2);
  EXPECT_TRUE(warnings.empty());
  patience.saved(9);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(warnings[0].starts_with("a step and a save take about")) << warnings[0];
}

TEST_F(Patience, WarnsOnce) {
  patience.expect_save(9);
  patience.stepped(9);
  patience.saved(9);
  EXPECT_EQ(warnings.size(), 1u);
}

TEST_F(Patience, IsUnlimitedUnderOtherLaunchers) {
  ::unsetenv("OMPI_COMM_WORLD_SIZE");
  patience.expect_save(1000);
  patience.saved(1000);
  EXPECT_TRUE(warnings.empty());
}

}  // namespace
}  // namespace hexad::train
