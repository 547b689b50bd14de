#include "framework/data/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace hexad::data {

ReadFile::ReadFile(std::string path) : path_(std::move(path)) {
  // O_NONBLOCK: opening a named pipe would otherwise wait for a writer instead of being refused below.
  fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd_ < 0) fail(ExitCode::data, path_, ": cannot be opened: ", std::strerror(errno));
  struct stat status {};
  const bool regular = ::fstat(fd_, &status) == 0 && S_ISREG(status.st_mode);
  if (!regular) {
    ::close(fd_);
    fail(ExitCode::data, path_, ": is not a regular file");
  }
  size_ = status.st_size;
}

ReadFile::~ReadFile() { ::close(fd_); }

void ReadFile::read_at(int64_t offset, void* out, int64_t bytes) const {
  auto* to = static_cast<char*>(out);
  for (int64_t done = 0; done < bytes;) {
    const ssize_t n = ::pread(fd_, to + done, static_cast<size_t>(bytes - done), offset + done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(ExitCode::data, path_, ": cannot be read at byte ", offset + done, ": ", std::strerror(errno));
    if (n == 0) {
      fail(ExitCode::data, path_, ": ends at byte ", offset + done, ", expected at least ", offset + bytes, " (it had ",
           size_, " bytes when it was opened)");
    }
    done += n;
  }
}

std::string read_file(const std::string& path, int64_t limit) {
  const ReadFile file(path);
  if (file.size() > limit) {
    fail(ExitCode::data, path, ": has ", file.size(), " bytes, expected at most ", limit);
  }
  std::string contents(static_cast<size_t>(file.size()), '\0');
  file.read_at(0, contents.data(), file.size());
  return contents;
}

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)), temporary_(cat(path_, ".tmp.", ::getpid())) {
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd_ < 0) fail_write(errno);
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::fail_write(int error) const {
  fail(ExitCode::resource, path_, ": cannot be written: ", std::strerror(error));
}

void AtomicFile::append(const void* bytes, size_t count) {
  write_at(end_, bytes, count);
  end_ += static_cast<int64_t>(count);
}

void AtomicFile::write_at(int64_t offset, const void* bytes, size_t count) {
  const auto* from = static_cast<const char*>(bytes);
  for (size_t done = 0; done < count;) {
    const ssize_t n = ::pwrite(fd_, from + done, count - done, offset + static_cast<int64_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_write(errno);
    done += static_cast<size_t>(n);
  }
}

void AtomicFile::commit() {
  if (::fsync(fd_) != 0) fail_write(errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail_write(errno);
  ::close(fd_);
  fd_ = -1;
  // The rename itself lives in the folder: without this a power cut may bring back the old name.
  const std::string folder = std::filesystem::absolute(path_).parent_path().string();
  const int folder_fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder_fd < 0) fail_write(errno);
  const int synced = ::fsync(folder_fd);
  const int error = errno;
  ::close(folder_fd);
  if (synced != 0) fail_write(error);
}

void write_file(const std::string& path, std::string_view contents) {
  AtomicFile file(path);
  file.append(contents.data(), contents.size());
  file.commit();
}

}  // namespace hexad::data
