#include "tools/scale/child_process.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <optional>
#include <thread>

#include "framework/base/error.h"
#include "framework/io/file_lock.h"
#include "tests/telemetry/temporary_folder.h"

namespace hexad::scale {
namespace {

class ScaleChild : public testing::Test {
 protected:
  ChildEnd run(const std::string& script, double limit = 60) const {
    return run_child({"sh", "-c", script}, output(), limit);
  }
  std::string output() const { return (folder_ / "out.txt").string(); }
  std::string lock() const { return (folder_ / "lock").string(); }
  bool lock_is_free() const { return io::FileLock::take(lock(), io::FileLock::Mode::exclusive, true).has_value(); }
  // Waits until the lock is free, for at most 20 s. Returns true if it is.
  bool lock_becomes_free() const {
    for (int i = 0; i < 1000 && !lock_is_free(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return lock_is_free();
  }
  std::string go() const { return (folder_ / "go").string(); }

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
  // `sleep` inherits the lock, which becomes free when the last process that has it ends.
  const ChildEnd end = run(base::cat("exec 9>'", lock(), "'; flock 9; sleep 300 & wait"), 0.5);
  EXPECT_TRUE(end.timed_out);
  EXPECT_EQ(end.exit_code, 143);
  EXPECT_TRUE(lock_becomes_free());
}

TEST_F(ScaleChild, TheKeptLockLastsAsLongAsTheChild) {
  std::optional<io::FileLock> mine = io::FileLock::take(lock(), io::FileLock::Mode::exclusive, true);
  ASSERT_TRUE(mine.has_value());
  // The background process simulates a run whose experiment was killed.
  const std::string script = base::cat("(while [ ! -e '", go(), "' ]; do sleep 0.05; done) & exit 0");
  EXPECT_EQ(run_child({"sh", "-c", script}, output(), 60, mine->descriptor()).exit_code, 0);
  mine.reset();
  EXPECT_FALSE(lock_is_free());
  telemetry::write_text(go(), "");
  EXPECT_TRUE(lock_becomes_free());
}

TEST_F(ScaleChild, AnIgnoredSignalDoesNotEndTheChild) {
  const auto before = std::signal(SIGHUP, SIG_IGN);
  EXPECT_EQ(run("kill -HUP $PPID; sleep 1; exit 3").exit_code, 3);
  std::signal(SIGHUP, before);
}

TEST_F(ScaleChild, AMissingProgramIsNamed) {
  try {
    run_child({"no-such-program"}, output(), 1);
    FAIL() << "a missing program was started";
  } catch (const base::Error& e) {
    EXPECT_NE(std::string(e.what()).find("cannot start no-such-program"), std::string::npos) << e.what();
  }
}

TEST(ScaleWords, AreDividedAtSpaces) {
  EXPECT_EQ(words_of(" mpirun  -np 2 "), (std::vector<std::string>{"mpirun", "-np", "2"}));
}

}  // namespace
}  // namespace hexad::scale
