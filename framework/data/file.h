// Reading of files without mapping them.
#pragma once

#include <cstdint>
#include <string>

#include "framework/base/error.h"

namespace hexad::data {
/// A regular file open for reading. It uses pread rather than mmap: if a mapped file shrinks, the process is killed by
/// SIGBUS, while a short read is an ordinary error. The page cache makes both equally fast.
class ReadFile {
 public:
  /// Throws Error(data) naming `path` if it is missing, unreadable or not a regular file.
  explicit ReadFile(std::string path);
  ~ReadFile();
  ReadFile(const ReadFile&) = delete;
  ReadFile& operator=(const ReadFile&) = delete;

  const std::string& path() const { return path_; }
  /// Size in bytes at the time of opening.
  int64_t size() const { return size_; }
  /// Fills `out` with `bytes` bytes from `offset`. Throws Error(data) if the file ends earlier. Thread-safe.
  void read_at(int64_t offset, void* out, int64_t bytes) const;

 private:
  std::string path_;
  int fd_ = -1;
  int64_t size_ = 0;
};

/// Returns the whole file. Throws Error(data) if it cannot be read or is longer than `limit` bytes.
std::string read_file(const std::string& path, int64_t limit = INT64_MAX);

}  // namespace hexad::data
