#include "framework/io/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace hexad::io {

using namespace base;

namespace {
constexpr size_t buffer_bytes = 1 << 20;
// Number of newly written bytes after which push_out() waits until the preceding bytes are on disk. Without these
// waits, the sync at the end could take minutes without visible progress.
constexpr int64_t unsynced_bytes = 64 << 20;
}  // namespace

OutputFile::OutputFile(std::string path, FileWork work) : path_(std::move(path)), work_(std::move(work)) {
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd_ < 0) fail(ExitCode::resource, path_, ": cannot be created: ", std::strerror(errno));
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
}

void OutputFile::append(const void* bytes, int64_t count) {
  const auto* from = static_cast<const char*>(bytes);
  const size_t size = count;
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
  constexpr size_t max_write_bytes = 16 << 20;  // maximum bytes of one write; small enough for visible progress
  for (size_t done = 0; done < count;) {
    const ssize_t n = ::write(fd_, bytes + done, std::min(count - done, max_write_bytes));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_write("cannot be written");
    done += n;
    written_ += n;
    work_.moved(path_, n);
    push_out();
  }
}

void OutputFile::push_out() {
  if (written_ - pushed_ < unsynced_bytes) return;
  // Waits until the previous part has been written to disk, and starts to write the newest part to disk.
  sync_range(waited_, pushed_, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
  waited_ = pushed_;
  sync_range(pushed_, written_, SYNC_FILE_RANGE_WRITE);
  pushed_ = written_;
}

void OutputFile::sync_range(int64_t begin, int64_t end, unsigned how) {
  if (begin == end || ::sync_file_range(fd_, begin, end - begin, how) == 0) return;
  // The file is synced at the end if the file system does not support this call. A write error must be reported here:
  // the operating system reports it only once, and a later fsync would succeed.
  if (errno != EINVAL && errno != ESPIPE && errno != ENOSYS && errno != EOPNOTSUPP)
    fail_write("cannot be flushed to disk");
}

void OutputFile::finish(const FaultHook& fault) {
  flush();
  reach(fault, "file written");
  if (::fsync(fd_) != 0) fail_write("cannot be flushed to disk");
  const int closed = ::close(fd_);
  fd_ = -1;
  if (closed != 0) fail_write("cannot be closed");
  work_.moved(path_);
  reach(fault, "file synced");
}

void OutputFile::fail_write(const char* what) const {
  const int error = errno;
  fail(ExitCode::resource, path_, ": ", what, " after ", written_, " bytes: ", std::strerror(error));
}

}  // namespace hexad::io
