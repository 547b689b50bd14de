// Files that appear under their name complete or not at all, whatever happens while they are written.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace hexad::base {

/// Written to a temporary neighbour, `path.PID.tmp`, that takes the name at commit().
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
  /// fsync, rename, fsync of the folder. Throws Error(resource) (disk full, ...) with the old file, if any, untouched;
  /// where only the last of the three fails, the new file is there, and the message says so.
  /// `reached` (may be empty) hears of "file written", "file synced" and "file renamed": a test may fail there.
  void commit(const std::function<void(std::string_view point)>& reached = {});

 private:
  [[noreturn]] void fail_write(const char* what) const;

  std::string path_, temporary_;
  int fd_ = -1;
  int64_t end_ = 0;
};

/// A whole file of `contents`, as AtomicFile writes it.
void write_file(const std::string& path, std::string_view contents,
                const std::function<void(std::string_view point)>& reached = {});

/// Waits until the disk has the entries of `folder` (names, not contents). Throws Error(resource).
void sync_folder(const std::string& folder);

}  // namespace hexad::base
