#include "framework/telemetry/append_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "framework/base/error.h"
#include "tests/telemetry/temporary_folder.h"

namespace hexad::telemetry {
namespace {

/// Limits the files of this process to `bytes` bytes while an object of this class exists. Writes beyond this size
/// fail, as on a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
    signal(SIGXFSZ, SIG_IGN);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, SIG_DFL);
  }

 private:
  rlimit before_{};
};

TEST(AppendFile, HalfWrittenRecordIsRemoved) {
  const TemporaryFolder folder;
  AppendFile file(folder / "log");
  file.append("first\n");
  {
    const FileSizeLimit full(10);
    try {
      file.append("second record\n");
      FAIL() << "the file exceeded the size limit without an error";
    } catch (const base::Error& e) {
      EXPECT_EQ(e.what(), "cannot write to " + (folder / "log").string() + ": File too large");
    }
  }
  EXPECT_EQ(contents(folder / "log"), "first\n");
  file.append("third\n");
  EXPECT_EQ(contents(folder / "log"), "first\nthird\n");
}

TEST(WriteAll, ClosedPipeIsAnErrorNotASignal) {
  ASSERT_EQ(signal(SIGPIPE, SIG_DFL), SIG_DFL) << "the test needs the default action, which ends the process";
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  EXPECT_EQ(write_all(ends[1], "anyone?"), EPIPE);
  close(ends[1]);
  sigset_t pending;
  sigpending(&pending);
  EXPECT_EQ(sigismember(&pending, SIGPIPE), 0) << "no SIGPIPE may remain pending";
}

TEST(WriteAll, WaitsForAFullNonBlockingPipe) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_NONBLOCK), 0);
  const std::string big(1 << 20, 'x');  // sixteen times the usual size of a pipe
  const pid_t reader = fork();
  if (reader == 0) {
    close(ends[1]);
    fcntl(ends[0], F_SETFL, 0);
    size_t total = 0;
    char buffer[4096];
    for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) total += n;
    _exit(total == (1 << 20) ? 0 : 1);
  }
  close(ends[0]);
  size_t written = 0;
  EXPECT_EQ(write_all(ends[1], big, &written), 0);
  EXPECT_EQ(written, big.size());
  close(ends[1]);
  int status = -1;
  waitpid(reader, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace hexad::telemetry
