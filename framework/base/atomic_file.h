// Files that appear under their final name only once they are complete. If writing fails, an existing file of that name
// does not change.
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
  /// Removes the temporary file unless commit() has renamed it. `path` does not change.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends `count` bytes. Throws Error(resource) if they cannot be written.
  void append(const void* bytes, size_t count);
  /// Overwrites `count` bytes at `offset` that were appended earlier, such as a header whose values are known only at
  /// the end. Throws like append().
  void write_at(int64_t offset, const void* bytes, size_t count);
  /// Syncs the file, renames it, and syncs the folder. Throws Error(resource), for example if the disk is full. After
  /// an error, an existing file at `path` is unchanged, unless only the sync of the folder failed. In that case, the
  /// new file is in place, as the error message says. If `reached` is not empty, calls it with "file written", "file
  /// synced" and "file renamed"; a test may throw from `reached`.
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
