#include "framework/base/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "framework/base/error.h"

namespace hexad::base {

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)), temporary_(cat(path_, ".", ::getpid(), ".tmp")) {
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd_ < 0) fail_write("cannot be created");
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::fail_write(const char* what) const {
  fail(ExitCode::resource, path_, ": ", what, ": ", std::strerror(errno));
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
    if (n < 0) fail_write("cannot be written");
    done += n;
  }
}

void AtomicFile::commit(const std::function<void(std::string_view)>& reached) {
  const auto reach = [&](std::string_view point) {
    if (reached) reached(point);
  };
  reach("file written");
  if (::fsync(fd_) != 0) fail_write("cannot be flushed to disk");
  reach("file synced");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail_write("cannot be replaced");
  ::close(fd_);
  fd_ = -1;
  // A rename changes the contents of the folder. Without a sync of the folder, a power cut may undo the rename.
  try {
    reach("file renamed");
    sync_folder(std::filesystem::absolute(path_).parent_path().string());
  } catch (const Error& error) {
    fail(error.code(), path_, ": is written, but may not survive a power cut: ", error.what());
  }
}

void write_file(const std::string& path, std::string_view contents,
                const std::function<void(std::string_view)>& reached) {
  AtomicFile file(path);
  file.append(contents.data(), contents.size());
  file.commit(reached);
}

void sync_folder(const std::string& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail(ExitCode::resource, folder, ": cannot be opened: ", std::strerror(errno));
  const int synced = ::fsync(fd);
  const int error = errno;
  ::close(fd);
  if (synced != 0) fail(ExitCode::resource, folder, ": cannot be flushed to disk: ", std::strerror(error));
}

}  // namespace hexad::base
