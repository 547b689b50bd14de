// Several files of a folder that are replaced together.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hexad::data {

/// Writes new files to a subfolder of `folder` and moves them into place at commit(). Until then, and after any
/// failure, the files of `folder` are unchanged.
class StagedFiles {
 public:
  /// Creates `folder` if it is missing, and removes unfinished files of a killed process. Throws Error(resource).
  /// Throws Error(usage) if such a process left old files that it had moved out of place.
  explicit StagedFiles(std::string folder);
  ~StagedFiles();
  StagedFiles(const StagedFiles&) = delete;
  StagedFiles& operator=(const StagedFiles&) = delete;

  /// Returns the path at which to write the file that commit() will call `name`.
  std::string path(std::string_view name) const;

  /// Replaces the files `names`: removes the old files in this order, then moves the new files into place in the
  /// opposite order. If a name has no new file, its old file is only removed. All old files are removed before the
  /// first new file appears. A reader that opens the first name before the others therefore finds all old files, all
  /// new files, or none. Throws Error(resource) after moving the old files back.
  void commit(std::span<const std::string_view> names);

 private:
  void remove_leftovers() const;
  std::string in(std::string_view name) const;
  void move(const std::string& from, const std::string& to);
  void undo() noexcept;

  struct Move {
    std::string from, to;
  };
  std::string folder_, stage_, replaced_;
  bool made_;  // true if this object created the folder
  std::vector<Move> moves_;
};

}  // namespace hexad::data
