// Writing of large files, with clear errors if the disk fails or is full.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/base/error.h"
#include "framework/base/file_work.h"
#include "framework/data/digest.h"
#include "framework/io/write_fault.h"

namespace hexad::io {

using base::FileWork;
/// A new file that is written sequentially through a buffer. Computes the digest of its bytes. Every failure throws
/// Error(resource) that names the file, the system's reason and, once the file exists, the number of bytes written.
class OutputFile {
 public:
  /// Creates the file or replaces the contents of an existing file. Bytes that the system has accepted are reported to
  /// `work`.
  explicit OutputFile(std::string path, FileWork work = {});
  /// Closes the file. An incomplete file remains if finish() was not called. The caller must remove this file.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void append(const void* bytes, int64_t count);
  /// Writes the buffer, waits until all bytes are on disk, and closes the file.
  void finish(const FaultHook& fault = {});

  int64_t bytes() const { return written_ + static_cast<int64_t>(buffer_.size()); }
  /// Returns the XXH3-128 digest of all bytes appended, as 32 hexadecimal digits.
  std::string digest() const { return digest_.value().to_string(); }

 private:
  void flush();
  void write(const char* bytes, size_t count);
  void push_out();
  void sync_range(int64_t begin, int64_t end, unsigned how);
  [[noreturn]] void fail_write(const char* what) const;

  std::string path_;
  FileWork work_;
  int fd_;
  // Numbers of bytes from the beginning of the file:
  // - written_: bytes that were passed to the system
  // - pushed_: bytes that the system has started to write to disk
  // - waited_: bytes that are on disk
  int64_t written_ = 0, pushed_ = 0, waited_ = 0;
  std::vector<char> buffer_;
  data::StreamingDigest digest_;
};

}  // namespace hexad::io
