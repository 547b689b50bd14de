// An output folder that gets its final name only when it is complete.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "framework/base/file_work.h"

namespace hexad::interop {

/// A folder that is filled under a temporary name in the same parent folder as its target. The destructor removes the
/// folder and its contents if commit() has not renamed the folder.
class NewFolder {
 public:
  /// Creates the temporary folder. Reports each written file to `work`. Throws:
  /// - Error(usage) if `target` exists and is not an empty folder, if `target` is the working directory or a mount
  ///   point, or if its name is too long
  /// - Error(resource) if the folder cannot be created for another reason
  explicit NewFolder(const std::string& target, base::FileWork work = {});
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  /// Returns the path of the temporary folder.
  const std::string& path() const { return temporary_; }
  /// Creates a subfolder.
  void add_folder(const std::string& name) const;
  /// Writes a file in this folder and flushes it to the disk (fsync).
  void add_file(const std::string& name, std::string_view contents) const;
  /// Copies a companion file of the model in `from_folder` (see source_folder.h) into this folder or its subfolder
  /// `to_folder`, under the same name.
  void copy_file(const std::string& from_folder, const std::string& name, const std::string& to_folder = "") const;
  /// Renames the folder to its target. Throws Error(resource) if this fails. If only the new name cannot be flushed to
  /// disk, the target is complete, as the message of the error says. If `reached` is not empty, calls it with the
  /// text "folder renamed". A test may throw an exception from this call.
  void commit(const std::function<void(std::string_view point)>& reached = {});

 private:
  base::FileWork work_;
  std::string target_, temporary_;  // absolute paths; temporary_ is empty after commit()
};

/// End of the names of temporary folders: TARGET.PID.tmp.
inline constexpr std::string_view temporary_suffix = ".tmp";

}  // namespace hexad::interop
