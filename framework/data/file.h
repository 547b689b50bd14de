// Reading without mapping.
#pragma once

#include <cstdint>
#include <string>

#include "framework/base/error.h"

namespace hexad::data {
/// A regular file open for reading. Reads go through pread, not mmap: a file that shrinks under a mapping kills the
/// process with SIGBUS, while a short read is an ordinary error; the page cache serves both equally fast.
class ReadFile {
 public:
  /// Throws Error(data) naming `path` when it is missing, not readable or not a regular file.
  explicit ReadFile(std::string path);
  ~ReadFile();
  ReadFile(const ReadFile&) = delete;
  ReadFile& operator=(const ReadFile&) = delete;

  const std::string& path() const { return path_; }
  /// Size in bytes when the file was opened.
  int64_t size() const { return size_; }
  /// Fills `out` with `bytes` bytes from `offset`. Throws Error(data) when the file ends before that. Thread-safe.
  void read_at(int64_t offset, void* out, int64_t bytes) const;

 private:
  std::string path_;
  int fd_ = -1;
  int64_t size_ = 0;
};

/// The whole file. Throws Error(data) when it cannot be read or is longer than `limit` bytes.
std::string read_file(const std::string& path, int64_t limit = INT64_MAX);

}  // namespace hexad::data
