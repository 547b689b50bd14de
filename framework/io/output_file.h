// Writing large files, and saying clearly when the disk does not take them.
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
/// A new file, written front to back through a buffer; knows the digest of what was written. All failures are
/// Error(resource) naming the file, the byte and the system's reason.
class OutputFile {
 public:
  /// An existing file is replaced. `work` is told what the disk has taken.
  explicit OutputFile(std::string path, FileWork work = {});
  /// Without finish() the file stays behind incomplete: its owner removes the folder or the file.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void append(const void* bytes, int64_t count);
  /// Writes what is buffered, waits until the disk has it, closes.
  void finish(const FaultHook& fault = {});

  int64_t bytes() const { return written_ + static_cast<int64_t>(buffer_.size()); }
  /// XXH3-128 of all bytes appended, as 32 hexadecimal digits.
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
  int64_t written_ = 0, pushed_ = 0, waited_ = 0;  // of these bytes the system has heard, the disk has these
  std::vector<char> buffer_;
  data::StreamingDigest digest_;
};

}  // namespace hexad::io
