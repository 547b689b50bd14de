// Files that appear under their final name only once they are complete. An existing file of that name does not change
// if writing fails.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace hexad::base {

/// Writes to a temporary file, `path.PID.tmp`, which commit() renames to `path`.
class AtomicFile {
 public:
  /// Throws Error(resource) if the temporary file cannot be created.
  explicit AtomicFile(std::string path);
  /// Removes the temporary file if commit() has not renamed it. Does not change the file at `path`.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends `count` bytes. Throws Error(resource) if they cannot be written.
  void append(const void* bytes, size_t count);
  /// Overwrites `count` bytes at `offset` that were appended earlier, such as a header whose values are known only at
  /// the end. Throws like append().
  void write_at(int64_t offset, const void* bytes, size_t count);
  /// Syncs the file, renames it, and syncs the folder. Throws Error(resource) if one of these steps fails, for example
  /// because the disk is full. An existing file at `path` is unchanged if the first sync or the rename fails. The new
  /// file is in place, as the error message says, if the sync of the folder fails. Calls `reached` with "file written",
  /// "file synced" and "file renamed" if `reached` is not empty; a test may throw from `reached`.
  void commit(const std::function<void(std::string_view point)>& reached = {});

 private:
  [[noreturn]] void fail_write(const char* what) const;

  std::string path_, temporary_;
  int fd_ = -1;
  int64_t end_ = 0;
};

/// Writes `contents` to `path` through an AtomicFile. Passes `reached` to commit(). Throws Error(resource) like the
/// members of AtomicFile.
void write_file(const std::string& path, std::string_view contents,
                const std::function<void(std::string_view point)>& reached = {});

/// Waits until the entries of `folder` (their names, not their contents) are on disk. Throws Error(resource) if this
/// fails.
void sync_folder(const std::string& folder);

}  // namespace hexad::base
