// Reading without mapping, and writing that is all or nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "framework/base/error.h"

namespace hexad::data {
using namespace base;

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

/// A file that appears under its name complete or not at all: temporary neighbour, fsync, rename, fsync of the folder.
class AtomicFile {
 public:
  /// Throws Error(resource) when the temporary cannot be created.
  explicit AtomicFile(std::string path);
  /// Without commit() the temporary is removed and `path` stays as it was.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void append(const void* bytes, size_t count);
  /// Overwrites bytes already appended: for headers that are known last.
  void write_at(int64_t offset, const void* bytes, size_t count);
  /// Throws Error(resource) (disk full, ...) with the old file, if any, untouched.
  void commit();

 private:
  [[noreturn]] void fail_write(int error) const;

  std::string path_, temporary_;
  int fd_ = -1;
  int64_t end_ = 0;
};

void write_file(const std::string& path, std::string_view contents);

}  // namespace hexad::data
