// Files that are replaced as a whole. tests/io/files_test.cpp tests a process that is killed during the replacement.
#include "framework/base/atomic_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "framework/base/error.h"

namespace hexad::base {
namespace {

namespace fs = std::filesystem;

class AtomicFileTest : public testing::Test {
 protected:
  AtomicFileTest() { fs::create_directories(folder_); }
  ~AtomicFileTest() override { fs::remove_all(folder_); }

  std::string path() const { return folder_ / "file"; }
  std::string contents() const {
    std::ifstream in(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  int64_t files() const { return std::distance(fs::directory_iterator(folder_), {}); }

 private:
  fs::path folder_ = fs::path(testing::TempDir()) / ("hexad-atomic-file-" + std::to_string(::getpid()));
};

/// Limits the size of the files that this process writes to `bytes` bytes while the object exists. Writes beyond this
/// size fail with EFBIG, not with a signal.
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

TEST_F(AtomicFileTest, AppearsWithCommitAndNotBefore) {
  write_file(path(), "old");
  {
    AtomicFile file(path());
    file.append("????, world", 11);
    file.write_at(0, "hello", 5);
    EXPECT_EQ(contents(), "old");
    file.commit();
  }
  EXPECT_EQ(contents(), "hello world");
  EXPECT_EQ(files(), 1);
}

TEST_F(AtomicFileTest, NothingChangesWithoutCommit) {
  write_file(path(), "old");
  AtomicFile(path()).append("new", 3);
  EXPECT_EQ(contents(), "old");
  EXPECT_EQ(files(), 1);
}

TEST_F(AtomicFileTest, KeepsTheOldFileIfTheNewFileDoesNotFit) {
  write_file(path(), "old");
  const auto write = [&] {
    const FileSizeLimit full(4);
    write_file(path(), "new and larger");
  };
  try {
    write();
    FAIL() << "the file exceeded the size limit without an error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::resource);
    EXPECT_EQ(e.what(), path() + ": cannot be written: File too large");
  }
  EXPECT_EQ(contents(), "old");
  EXPECT_EQ(files(), 1);
  write_file(path(), "new and larger");
  EXPECT_EQ(contents(), "new and larger");
}

}  // namespace
}  // namespace hexad::base
