#include "tools/scale/run_output.h"

#include <gtest/gtest.h>

#include "tests/telemetry/temporary_folder.h"

namespace hexad::scale {
namespace {

const std::string banner =
    "--------------------------------------------------------------------------\n"
    "MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD\n"
    "with errorcode 3.\n"
    "--------------------------------------------------------------------------\n";

class ScaleOutput : public testing::Test {
 protected:
  std::string failure(const std::string& output) const {
    telemetry::write_text(path(), output);
    return failure_line(path());
  }
  std::string path() const { return (folder_ / "repeat-1.txt").string(); }

 private:
  telemetry::TemporaryFolder folder_;
};

TEST_F(ScaleOutput, TheLastMessageOfTheProgramNamesTheFailure) {
  EXPECT_EQ(failure("step 1\nhexad: rank 1: no memory\n" + banner + "[n0:7] 1 more process\n"),
            "hexad: rank 1: no memory");
  EXPECT_EQ(failure("error: no data\nwarning: slow\nhexad: warning: slow\nstep 2\n" + banner), "error: no data");
  EXPECT_EQ(failure("rank 12: lost\nrank of a matrix\n"), "rank 12: lost");
}

TEST_F(ScaleOutput, OtherFailuresAreNamedByTheLauncherOrTheLastLine) {
  EXPECT_EQ(failure("step 1\n" + banner + "mpirun noticed that process rank 0 exited on signal 9 (Killed).\n"),
            "mpirun noticed that process rank 0 exited on signal 9 (Killed).");
  EXPECT_EQ(failure("the first run fails \r\n\n" + banner), "the first run fails");
  EXPECT_EQ(failure(banner), "MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD");
  EXPECT_EQ(failure(""), "");
}

TEST_F(ScaleOutput, DistinctWarningsAreFound) {
  telemetry::write_text(path(), "warning: slow\nhexad: warning: slow\nstep 1\nwarning: two threads\nno warning: x\n");
  EXPECT_EQ(warnings_in(path()), (std::vector<std::string>{"slow", "two threads"}));
  std::string many;
  for (int step = 1; step <= 30; ++step) many += "warning: step " + std::to_string(step) + " skipped\n";
  telemetry::write_text(path(), many);
  EXPECT_EQ(warnings_in(path()).size(), 20u);
}

}  // namespace
}  // namespace hexad::scale
