// Reading of files with system calls instead of memory mapping.
#pragma once

#include <cstdint>
#include <string>

#include "framework/base/error.h"

namespace hexad::data {
/// A regular file that is open for reading. It is read with pread and not mapped. If a mapped file shrinks, SIGBUS
/// kills the process, while a short read is an ordinary error. Reading and mapping are equally fast, because both use
/// the page cache.
class ReadFile {
 public:
  /// Opens `path`. Throws Error(data) that names `path` if it is missing, unreadable or not a regular file.
  explicit ReadFile(std::string path);
  ~ReadFile();
  ReadFile(const ReadFile&) = delete;
  ReadFile& operator=(const ReadFile&) = delete;

  const std::string& path() const { return path_; }
  /// Returns the size in bytes at the time of opening.
  int64_t size() const { return size_; }
  /// Reads `bytes` bytes from byte `offset` into `out`. Throws Error(data) if the file ends earlier or cannot be read.
  /// Thread-safe.
  void read_at(int64_t offset, void* out, int64_t bytes) const;

 private:
  std::string path_;
  int fd_ = -1;
  int64_t size_ = 0;
};

/// Returns the contents of a file. Throws Error(data) if it cannot be read or is longer than `limit` bytes.
std::string read_file(const std::string& path, int64_t limit = INT64_MAX);

}  // namespace hexad::data
