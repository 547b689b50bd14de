#include "framework/data/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "framework/base/path_problem.h"

namespace hexad::data {

using namespace base;

ReadFile::ReadFile(std::string path) : path_(std::move(path)) {
  // Without O_NONBLOCK, opening a named pipe would wait for a writer. The check below rejects pipes.
  fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd_ < 0) throw ReadError(cat(path_, ": cannot be opened: ", std::strerror(errno)));
  struct stat status {};
  const bool regular = ::fstat(fd_, &status) == 0 && S_ISREG(status.st_mode);
  if (!regular) {
    ::close(fd_);
    fail(ExitCode::data, path_, ": is not a regular file but ", kind_of_file(status.st_mode),
         "; expected a regular file");
  }
  size_ = status.st_size;
}

ReadFile::~ReadFile() { ::close(fd_); }

void ReadFile::read_at(int64_t offset, void* out, int64_t bytes) const {
  auto* to = static_cast<char*>(out);
  for (int64_t done = 0; done < bytes;) {
    const ssize_t n = ::pread(fd_, to + done, bytes - done, offset + done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw ReadError(cat(path_, ": cannot be read at byte ", offset + done, ": ", std::strerror(errno)));
    if (n == 0) {
      fail(ExitCode::data, path_, ": ends at byte ", offset + done, ", expected at least ", offset + bytes,
           " bytes (the file had ", size_, " bytes when it was opened)");
    }
    done += n;
  }
}

std::string read_file(const std::string& path, int64_t limit) {
  const ReadFile file(path);
  if (file.size() > limit) {
    fail(ExitCode::data, path, ": has ", file.size(), " bytes, expected at most ", limit);
  }
  std::string contents(file.size(), '\0');
  file.read_at(0, contents.data(), file.size());
  return contents;
}

}  // namespace hexad::data
