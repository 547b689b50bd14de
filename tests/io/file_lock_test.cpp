// Locks on file systems whose flock() behaves differently from the flock() of a local disk. This program replaces
// flock() of the C library.
#include "framework/io/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/syscall.h>

#include <cerrno>

#include "tests/io/checkpoint_testing.h"

namespace hexad::io {
namespace {

/// File system that flock() imitates.
struct FileSystem {
  bool exclusive_needs_writing = false;  // like NFS: exclusive locks need a writable descriptor
  int exclusive_error = 0;               // errno of every exclusive lock, or 0 if exclusive locks succeed
};

FileSystem& file_system() {
  static FileSystem current;
  return current;
}

bool may_write(int fd) { return (::fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY; }

}  // namespace
}  // namespace hexad::io

extern "C" int flock(int fd, int operation) noexcept {
  const hexad::io::FileSystem& like = hexad::io::file_system();
  if ((operation & LOCK_EX) != 0 && like.exclusive_error != 0) {
    errno = like.exclusive_error;
    return -1;
  }
  if ((operation & LOCK_EX) != 0 && like.exclusive_needs_writing && !hexad::io::may_write(fd)) {
    errno = EBADF;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_flock, fd, operation));
}

namespace hexad::io {

using namespace base;
namespace {

using namespace testing;

/// Each test begins with the flock() of a local disk.
struct FileLocks : CheckpointTest {
  void SetUp() override { file_system() = {}; }

  static std::optional<FileLock> take(const std::string& path, FileLock::Mode mode) {
    return FileLock::take(path, mode);
  }
  /// Runs `work` in a child process without root's permissions. All files of the test folder then belong to the user of
  /// the child.
  int in_child_without_root(const std::function<int()>& work) const {
    return in_child([&] {
      if (::getuid() == 0) {
        constexpr uid_t nobody = 65534;
        if (::chown(folder.path().c_str(), nobody, nobody) != 0) return 98;
        for (const auto& entry : fs::recursive_directory_iterator(folder.path()))
          if (::chown(entry.path().c_str(), nobody, nobody) != 0) return 98;
        if (::setuid(nobody) != 0) return 98;
      }
      return work();
    });
  }

  /// Saves three checkpoints. Returns a store that keeps the newest of them at the next retention.
  CheckpointStore three_checkpoints() {
    StoreOptions all = options;
    all.keep = 0;
    for (const int64_t step : {100, 200, 300}) save(CheckpointStore(store.folder(), all), step, 1, device);
    options.keep = 1;
    return CheckpointStore(store.folder(), options);
  }
};

TEST_F(FileLocks, ReaderExcludesAnExclusiveLockThatNeedsAWritableDescriptor) {
  file_system().exclusive_needs_writing = true;
  const std::string path = folder / "file";
  write_bytes(path, "contents");
  {
    const auto reader = take(path, FileLock::Mode::shared);
    ASSERT_TRUE(reader);
    EXPECT_TRUE(take(path, FileLock::Mode::shared));
    EXPECT_FALSE(take(path, FileLock::Mode::exclusive));
  }
  const auto writer = take(path, FileLock::Mode::exclusive);
  ASSERT_TRUE(writer);
  EXPECT_FALSE(take(path, FileLock::Mode::shared));
  EXPECT_EQ(read_bytes(path), "contents");
}

TEST_F(FileLocks, RetentionKeepsCheckpointsInUseIfLocksNeedAWritableDescriptor) {
  const CheckpointStore one = three_checkpoints();
  file_system().exclusive_needs_writing = true;
  {
    Checkpoint reader = one.open(100, Check::quick);
    one.retain();
    EXPECT_EQ(one.steps(), (std::vector<int64_t>{100, 300}));
    expect_holds(std::move(reader), 100, device);
  }
  one.retain();
  EXPECT_EQ(one.steps(), std::vector<int64_t>{300});
  EXPECT_TRUE(warnings.empty());
}

TEST_F(FileLocks, RetentionWarnsOfEachCheckpointThatCannotBeLocked) {
  const CheckpointStore one = three_checkpoints();
  file_system().exclusive_error = EIO;
  EXPECT_NO_THROW(one.retain());
  EXPECT_EQ(one.steps(), (std::vector<int64_t>{100, 200, 300}));
  EXPECT_EQ(warnings.size(), 2u);
  for (const int64_t step : {100, 200})
    expect_warned({cat(one.path(step), ": cannot be removed: ", one.path(step),
                       "/manifest.json: cannot be locked: Input/output error")});
}

TEST_F(FileLocks, RetentionContinuesAfterAManifestThatCannotBeOpened) {
  const CheckpointStore one = three_checkpoints();
  fs::permissions(one.path(100) + "/manifest.json", fs::perms::none);
  EXPECT_EQ(in_child_without_root([&] {
              one.retain();
              const std::string expected = cat(one.path(100), ": cannot be removed: ", one.path(100),
                                               "/manifest.json: cannot be opened: Permission denied");
              if (warnings != std::vector<std::string>{expected}) return 1;
              return one.steps() == std::vector<int64_t>{100, 300} ? 0 : 2;
            }),
            0);
}

TEST_F(FileLocks, RetentionKeepsACheckpointWithUnreadableFiles) {
  const CheckpointStore one = three_checkpoints();
  fs::permissions(one.path(100), fs::perms::none);
  EXPECT_EQ(in_child_without_root([&] {
              one.retain();
              const std::string expected = cat(one.path(100), ": cannot be removed: ", one.path(100),
                                               "/manifest.json: cannot be examined: Permission denied");
              if (warnings != std::vector<std::string>{expected}) return 1;
              return one.steps() == std::vector<int64_t>{100, 300} ? 0 : 2;
            }),
            0);
  fs::permissions(one.path(100), fs::perms::owner_all);
}

TEST_F(FileLocks, RetentionRemovesACheckpointWithALinkedManifest) {
  const CheckpointStore one = three_checkpoints();
  fs::rename(one.path(100) + "/manifest.json", folder / "elsewhere");
  fs::create_symlink(folder / "elsewhere", one.path(100) + "/manifest.json");
  one.retain();
  EXPECT_EQ(one.steps(), std::vector<int64_t>{300});
  EXPECT_TRUE(fs::exists(folder / "elsewhere"));
  EXPECT_TRUE(warnings.empty());
}

TEST_F(FileLocks, FileThatMayNotBeWrittenIsLockedOnALocalDiskOnly) {
  const std::string path = folder / "file";
  write_bytes(path, "");
  fs::permissions(path, fs::perms::owner_read);
  EXPECT_EQ(in_child_without_root([&] {
              if (!take(path, FileLock::Mode::exclusive)) return 1;
              file_system().exclusive_needs_writing = true;
              try {
                take(path, FileLock::Mode::exclusive);
                return 2;
              } catch (const Error& error) {
                const bool named =
                    std::string(error.what()).find("locks only files that this process may write") != std::string::npos;
                return named ? static_cast<int>(error.code()) : 3;
              }
            }),
            4);
}

TEST_F(FileLocks, LockSucceedsOnAFileSystemWithoutLocks) {
  write_bytes(folder / "file", "");
  for (const int error : {ENOLCK, ENOSYS, EOPNOTSUPP}) {
    file_system().exclusive_error = error;
    EXPECT_TRUE(take(folder / "file", FileLock::Mode::exclusive)) << std::strerror(error);
  }
  for (const int error : {EWOULDBLOCK, EACCES}) {
    file_system().exclusive_error = error;
    EXPECT_FALSE(take(folder / "file", FileLock::Mode::exclusive)) << std::strerror(error);
  }
}

}  // namespace
}  // namespace hexad::io
