// Preparation on file systems whose flock() fails. This program replaces flock() of the C library.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "framework/data/prepare.h"
#include "tests/data/corpus.h"

namespace hexad::data {
namespace {

// errno of every exclusive lock, or 0 if exclusive locks succeed.
int& lock_error() {
  static int error = 0;
  return error;
}

}  // namespace
}  // namespace hexad::data

extern "C" int flock(int fd, int operation) noexcept {
  if ((operation & LOCK_EX) != 0 && hexad::data::lock_error() != 0) {
    errno = hexad::data::lock_error();
    return -1;
  }
  return static_cast<int>(::syscall(SYS_flock, fd, operation));
}

namespace hexad::data {

using base::cat;
namespace {

struct PrepareLocks : ::testing::Test {
  void TearDown() override { lock_error() = 0; }
  TextCorpus corpus;
};

TEST_F(PrepareLocks, FileSystemsWithoutLocksAreAccepted) {
  for (const int error : {ENOLCK, ENOSYS, EOPNOTSUPP, EINVAL, ENOTTY}) {
    lock_error() = error;
    corpus.options.output = corpus.folder / cat("out-", error);
    EXPECT_FALSE(prepare(corpus.options).skipped) << std::strerror(error);
  }
}

TEST_F(PrepareLocks, HeldLocksAreUsageErrors) {
  for (const int error : {EWOULDBLOCK, EACCES}) {
    lock_error() = error;
    expect_contains(message_of(ExitCode::usage, [&] { prepare(corpus.options); }),
                    "out/unfinished: another `hexad prepare` writes to this --output; wait for it");
  }
}

TEST_F(PrepareLocks, OtherErrorsAreNamed) {
  lock_error() = EIO;
  expect_contains(message_of(ExitCode::resource, [&] { prepare(corpus.options); }),
                  cat("out/unfinished/lock: cannot be locked: ", std::strerror(EIO)));
  lock_error() = EBADF;
  expect_contains(message_of(ExitCode::resource, [&] { prepare(corpus.options); }),
                  "; this file system locks only files that this process may write");
  lock_error() = 0;
  EXPECT_FALSE(prepare(corpus.options).skipped) << "a lock file left behind does not prevent preparation";
}

}  // namespace
}  // namespace hexad::data
