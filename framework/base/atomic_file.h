// Files that appear under their name complete or not at all, even if writing fails midway.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace hexad::base {

/// Writes a temporary file, `path.PID.tmp`, which commit() renames to `path`.
class AtomicFile {
 public:
  /// Throws Error(resource) if the temporary file cannot be created.
  explicit AtomicFile(std::string path);
  /// Removes the temporary file and leaves `path` as it was, unless commit() succeeded.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void append(const void* bytes, size_t count);
  /// Overwrites bytes that were appended before, such as a header whose values are known last.
  void write_at(int64_t offset, const void* bytes, size_t count);
  /// Syncs the file, renames it and syncs the folder. Throws Error(resource), for example if the disk is full; an old
  /// file is then untouched. If only the sync of the folder fails, the new file is in place, and the message says so.
  /// Calls `reached`, unless empty, with "file written", "file synced" and "file renamed"; a test may throw there.
  void commit(const std::function<void(std::string_view point)>& reached = {});

 private:
  [[noreturn]] void fail_write(const char* what) const;

  std::string path_, temporary_;
  int fd_ = -1;
  int64_t end_ = 0;
};

/// Writes `contents` to `path` through an AtomicFile.
void write_file(const std::string& path, std::string_view contents,
                const std::function<void(std::string_view point)>& reached = {});

/// Waits until the entries of `folder` (names, not contents) are on disk. Throws Error(resource).
void sync_folder(const std::string& folder);

}  // namespace hexad::base
