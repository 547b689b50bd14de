#include "tools/scale/child_process.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <map>
#include <optional>
#include <thread>

#include "framework/base/error.h"
#include "framework/io/file_lock.h"
#include "tests/telemetry/temporary_folder.h"

namespace hexad::scale {
namespace {

ChildEnd run_child(const std::vector<std::string>& words, const std::string& output, double limit_seconds,
                   const std::vector<int>& kept = {}) {
  Children children;
  children.start(words, output, limit_seconds, kept);
  return children.wait().second;
}

class ScaleChild : public testing::Test {
 protected:
  ChildEnd run(const std::string& script, double limit = 60) const {
    return run_child({"sh", "-c", script}, output(), limit);
  }
  std::string output() const { return (folder_ / "out.txt").string(); }
  std::string lock() const { return (folder_ / "lock").string(); }
  bool lock_is_free() const { return io::FileLock::take(lock(), io::FileLock::Mode::exclusive, true).has_value(); }
  // Waits at most 20 s until the lock is free. Returns true if it is free.
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
  // `sleep` inherits the lock, which is free once the last process that holds the lock has ended.
  const ChildEnd end = run(base::cat("exec 9>'", lock(), "'; flock 9; sleep 300 & wait"), 0.5);
  EXPECT_TRUE(end.timed_out);
  EXPECT_EQ(end.exit_code, 143);
  EXPECT_TRUE(lock_becomes_free());
}

TEST_F(ScaleChild, TheKeptLockLastsAsLongAsTheChildsProcesses) {
  std::optional<io::FileLock> mine = io::FileLock::take(lock(), io::FileLock::Mode::exclusive, true);
  ASSERT_TRUE(mine.has_value());
  // The background process simulates a run whose experiment was killed.
  const std::string script = base::cat("(while [ ! -e '", go(), "' ]; do sleep 0.05; done) & exit 0");
  EXPECT_EQ(run_child({"sh", "-c", script}, output(), 60, {mine->descriptor()}).exit_code, 0);
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

TEST_F(ScaleChild, ChildrenRunAtTheSameTime) {
  Children children;
  // The first child ends only after the second child has made the file.
  const int64_t first =
      children.start({"sh", "-c", base::cat("while [ ! -e '", go(), "' ]; do sleep 0.05; done; exit 1")}, output(), 60);
  const int64_t second =
      children.start({"sh", "-c", base::cat("touch '", go(), "'; exit 2")}, base::cat(output(), ".second"), 60);
  std::map<int64_t, int> codes;
  for (int i = 0; i < 2; ++i) {
    const auto [child, end] = children.wait();
    codes[child] = end.exit_code;
  }
  EXPECT_EQ(codes, (std::map<int64_t, int>{{first, 1}, {second, 2}}));
}

TEST_F(ScaleChild, TheTimeLimitEndsOnlyItsChild) {
  Children children;
  const int64_t slow = children.start({"sleep", "300"}, output(), 0.5);
  children.start({"sh", "-c", base::cat("while [ ! -e '", go(), "' ]; do sleep 0.05; done")},
                 base::cat(output(), ".second"), 60);
  const auto [first, first_end] = children.wait();
  EXPECT_EQ(first, slow);
  EXPECT_TRUE(first_end.timed_out);
  telemetry::write_text(go(), "");
  const auto [second, second_end] = children.wait();
  EXPECT_NE(second, slow);
  EXPECT_FALSE(second_end.timed_out);
  EXPECT_EQ(second_end.exit_code, 0);
}

TEST_F(ScaleChild, ASignalEndsAllChildrenFirst) {
  // A forked process starts the children and gets the signal, because the signal ends the process that gets it.
  const pid_t parent = ::fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    Children children;
    for (const char* name : {".first", ".second"})
      children.start(
          {"sh", "-c", base::cat("exec 9>'", lock(), name, "'; flock 9; touch '", go(), name, "'; exec sleep 300")},
          base::cat(output(), name), 60);
    children.wait();
    children.wait();
    children.end_if_interrupted();
    ::_exit(0);
  }
  for (const char* name : {".first", ".second"})
    for (int i = 0; i < 1000 && !std::filesystem::exists(go() + name); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ::kill(parent, SIGTERM);
  int status = 0;
  ASSERT_EQ(::waitpid(parent, &status, 0), parent);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) << "wait status " << status;
  for (const char* name : {".first", ".second"})
    EXPECT_TRUE(io::FileLock::take(lock() + name, io::FileLock::Mode::exclusive, true).has_value()) << name;
}

TEST_F(ScaleChild, EveryEndAfterASignalIsReturned) {
  Children children;
  const int64_t tough =
      children.start({"sh", "-c", base::cat("trap '' TERM; touch '", go(), "'; sleep 1; exit 0")}, output(), 60);
  const int64_t quick = children.start({"sleep", "300"}, base::cat(output(), ".second"), 60);
  for (int i = 0; i < 1000 && !std::filesystem::exists(go()); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(children.interrupted());
  ::raise(SIGTERM);  // blocked, so it is pending until wait()
  std::map<int64_t, int> codes;
  for (int i = 0; i < 2; ++i) {
    const auto [child, end] = children.wait();
    codes[child] = end.exit_code;
  }
  EXPECT_TRUE(children.interrupted());
  EXPECT_EQ(codes, (std::map<int64_t, int>{{tough, 0}, {quick, 143}}));
}

TEST_F(ScaleChild, ChildrenEndWithTheObject) {
  {
    Children children;
    children.start({"sh", "-c", base::cat("exec 9>'", lock(), "'; flock 9; touch '", go(), "'; sleep 300 & wait")},
                   output(), 60);
    for (int i = 0; i < 1000 && !std::filesystem::exists(go()); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_TRUE(lock_becomes_free());
}

TEST_F(ScaleChild, AMissingProgramIsNamed) {
  try {
    run_child({"no-such-program"}, output(), 1);
    FAIL() << "the start of a missing program succeeded; expected an error";
  } catch (const base::Error& e) {
    EXPECT_NE(std::string(e.what()).find("cannot start no-such-program"), std::string::npos) << e.what();
  }
}

TEST(ScaleWords, AreDividedAtSpaces) {
  EXPECT_EQ(words_of(" mpirun  -np 2 "), (std::vector<std::string>{"mpirun", "-np", "2"}));
}

}  // namespace
}  // namespace hexad::scale
