#include "tools/scale/child_process.h"

#include <gtest/gtest.h>

#include "framework/base/error.h"
#include "tests/telemetry/temporary_folder.h"

namespace hexad::scale {
namespace {

class ScaleChild : public testing::Test {
 protected:
  ChildEnd run(const std::string& script, double limit = 60) const {
    return run_child({"sh", "-c", script}, output(), limit);
  }
  std::string output() const { return (folder_ / "out.txt").string(); }

 private:
  telemetry::TemporaryFolder folder_;
};

TEST_F(ScaleChild, OutputAndExitCodeAreKept) {
  const ChildEnd end = run("echo one; echo two >&2; exit 3");
  EXPECT_EQ(end.exit_code, 3);
  EXPECT_FALSE(end.timed_out);
  EXPECT_EQ(telemetry::contents(output()), "one\ntwo\n");
}

TEST_F(ScaleChild, ASignalBecomesAnExitCode) { EXPECT_EQ(run("kill -9 $$").exit_code, 137); }

TEST_F(ScaleChild, TheTimeLimitEndsTheWholeGroup) {
  const ChildEnd end = run("sleep 300 & wait", 0.1);
  EXPECT_TRUE(end.timed_out);
  EXPECT_EQ(end.exit_code, 143);
}

TEST_F(ScaleChild, AMissingProgramIsNamed) {
  try {
    run_child({"no-such-program"}, output(), 1);
    FAIL() << "started";
  } catch (const base::Error& e) {
    EXPECT_NE(std::string(e.what()).find("cannot start no-such-program"), std::string::npos) << e.what();
  }
}

TEST(ScaleWords, AreDividedAtSpaces) {
  EXPECT_EQ(words_of(" mpirun  -np 2 "), (std::vector<std::string>{"mpirun", "-np", "2"}));
}

}  // namespace
}  // namespace hexad::scale
