#include "framework/io/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace hexad::io {

namespace {
constexpr size_t buffer_bytes = 1 << 20;
}

OutputFile::OutputFile(std::string path) : path_(std::move(path)) {
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd_ < 0) fail(ExitCode::resource, path_, ": cannot be created: ", std::strerror(errno));
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
}

void OutputFile::append(const void* bytes, int64_t count) {
  const auto* from = static_cast<const char*>(bytes);
  const auto size = static_cast<size_t>(count);
  digest_.add(from, size);
  if (buffer_.size() + size > buffer_bytes) flush();
  if (size > buffer_bytes) return write(from, size);
  buffer_.insert(buffer_.end(), from, from + size);
}

void OutputFile::flush() {
  write(buffer_.data(), buffer_.size());
  buffer_.clear();
}

void OutputFile::write(const char* bytes, size_t count) {
  for (size_t done = 0; done < count;) {
    const ssize_t n = ::write(fd_, bytes + done, count - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_write("cannot be written");
    done += static_cast<size_t>(n);
    written_ += n;
  }
}

void OutputFile::finish(const FaultHook& fault) {
  flush();
  reach(fault, "file written");
  if (::fsync(fd_) != 0) fail_write("cannot be flushed to disk");
  const int closed = ::close(fd_);
  fd_ = -1;
  if (closed != 0) fail_write("cannot be closed");
  reach(fault, "file synced");
}

void OutputFile::fail_write(const char* what) const {
  const int error = errno;
  fail(ExitCode::resource, path_, ": ", what, " after ", written_, " bytes: ", std::strerror(error));
}

}  // namespace hexad::io
