// Reading of files with system calls instead of memory mapping.
#pragma once

#include <cstdint>
#include <string>

#include "framework/base/error.h"

namespace hexad::data {

/// Failure of the system to open or read a file. The failure may be transient, such as an input/output error of a
/// network file system. Unlike other errors of ReadFile, a ReadError does not mean that the file is wrong.
class ReadError final : public base::Error {
 public:
  explicit ReadError(const std::string& message) : base::Error(base::ExitCode::data, message) {}
};

/// A regular file that is open for reading. It is read with pread and not mapped. If the file shrinks, a read returns
/// too few bytes, an ordinary error. With a mapping, SIGBUS would kill the process. Reading and mapping are equally
/// fast, because both use the page cache.
class ReadFile {
 public:
  /// Opens `path`. Throws ReadError that names `path` if it is missing or unreadable. Throws Error(data) if it is not a
  /// regular file.
  explicit ReadFile(std::string path);
  ~ReadFile();
  ReadFile(const ReadFile&) = delete;
  ReadFile& operator=(const ReadFile&) = delete;

  const std::string& path() const { return path_; }
  /// Returns the size in bytes at the time of opening.
  int64_t size() const { return size_; }
  /// Reads `bytes` bytes from byte `offset` into `out`. Throws Error(data) if the file ends earlier, and ReadError if
  /// it cannot be read. Thread-safe.
  void read_at(int64_t offset, void* out, int64_t bytes) const;

 private:
  std::string path_;
  int fd_ = -1;
  int64_t size_ = 0;
};

/// Returns the contents of a file. Throws like ReadFile, and Error(data) if the file is longer than `limit` bytes.
std::string read_file(const std::string& path, int64_t limit = INT64_MAX);

}  // namespace hexad::data
