#include "framework/io/run_lock.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "framework/base/error.h"

namespace hexad::io {

using namespace base;

namespace {

std::string host_name() {
  std::array<char, 256> name{};
  require(::gethostname(name.data(), name.size() - 1) == 0, "[run lock] gethostname: ", std::strerror(errno));
  return name.data();
}

/// What the lock file says: "host pid".
struct Owner {
  std::string host, pid;
};

Owner read_owner(const std::string& path) {
  std::ifstream in(path);
  Owner owner;
  in >> owner.host >> owner.pid;
  return owner;
}

/// Whether the locked file is still the one of that name: its former owner may just have removed it.
bool is_current(int fd, const std::string& path) {
  struct stat mine {
  }, named{};
  return ::fstat(fd, &mine) == 0 && ::stat(path.c_str(), &named) == 0 && mine.st_ino == named.st_ino &&
         mine.st_dev == named.st_dev;
}

void write_owner(int fd, const std::string& path, const std::string& host) {
  const std::string text = cat(host, " ", ::getpid(), "\n");
  const bool written = ::ftruncate(fd, 0) == 0 &&
                       ::pwrite(fd, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()) &&
                       ::fsync(fd) == 0;
  if (!written) fail(ExitCode::resource, path, ": cannot be written: ", std::strerror(errno));
}

}  // namespace

RunLock RunLock::acquire(const std::string& run_directory) {
  std::error_code error;
  std::filesystem::create_directories(run_directory, error);
  if (error) fail(ExitCode::resource, run_directory, ": the run directory cannot be made: ", error.message());
  const std::string path = run_directory + "/lock", host = host_name();
  for (;;) {
    std::optional<FileLock> lock = FileLock::take(path, FileLock::Mode::exclusive, /*create=*/true);
    const auto in_use = [&](const Owner& owner, std::string_view advice) {
      fail(ExitCode::usage, run_directory, ": in use by process ", owner.pid.empty() ? "(not known yet)" : owner.pid,
           " on host ", owner.host.empty() ? host : owner.host, advice);
    };
    if (!lock) in_use(read_owner(path), "; wait for it to end, or choose another run directory");
    if (!is_current(lock->descriptor(), path)) continue;
    const Owner former = read_owner(path);
    if (!former.host.empty() && former.host != host) in_use(former, cat("; if that job has ended, remove ", path));
    write_owner(lock->descriptor(), path, host);
    return RunLock(path, std::move(*lock));
  }
}

RunLock::~RunLock() {
  if (lock_.descriptor() >= 0) ::unlink(path_.c_str());
}

}  // namespace hexad::io
