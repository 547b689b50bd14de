// Files of a folder that are replaced together.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hexad::data {

/// Writer of files in `folder` that are replaced together. The caller writes the new files to a subfolder, and commit()
/// moves them to their final names. The old files do not change before commit().
class StagedFiles {
 public:
  /// Prepares to replace files of `folder`, which must exist. No other process may replace files of `folder` during the
  /// life of this object; the lock of an UnfinishedDataset ensures this. Removes leftovers of killed processes from
  /// `folder`: new files that they did not commit, and old files that they had replaced. Throws Error(resource) if the
  /// folder cannot be listed, or if the subfolder for the new files cannot be created. Throws Error(usage) if `folder`
  /// has old files that an earlier commit() moved away. In this case, that commit() was killed, or failed and could not
  /// move them back.
  explicit StagedFiles(std::string folder);
  ~StagedFiles();
  StagedFiles(const StagedFiles&) = delete;
  StagedFiles& operator=(const StagedFiles&) = delete;

  /// Returns the path to which the caller must write the new file `name`.
  std::string path(std::string_view name) const;

  /// Replaces the files `names`. First moves all old files to another subfolder, in the order of `names`. Then moves
  /// the new files into place, in the opposite order. Therefore all other files are of the same version as names[0]
  /// while the file names[0] exists. An old file without a new file of the same name is removed.
  ///
  /// Throws Error(resource) if a step fails. First moves the files back, as far as possible, if a move fails. The new
  /// files remain in place, as the error message says, if the new names cannot be flushed to disk. In this case, or if
  /// the process is killed, the old files may remain in the subfolder. Calls `reached` with "files moved" if `reached`
  /// is not empty; a test may throw from `reached`.
  void commit(std::span<const std::string_view> names, const std::function<void(std::string_view point)>& reached = {});

 private:
  void remove_leftovers() const;
  std::string in(std::string_view name) const;
  void move(const std::string& from, const std::string& to);
  void undo() noexcept;

  struct Move {
    std::string from, to;
  };
  std::string folder_, stage_;
  std::string replaced_;  // subfolder with the old files until all new files are in place
  std::string outdated_;  // name of replaced_ once all new files are in place
  std::vector<Move> moves_;
};

}  // namespace hexad::data
