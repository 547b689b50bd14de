// Files of a folder that are replaced together.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hexad::data {

/// New files are written to a subfolder of `folder`, and commit() moves them to their final names. Until then, and
/// after any failure, the files in `folder` do not change.
class StagedFiles {
 public:
  /// Creates `folder` if it does not exist, and removes unfinished files of processes that were killed. Throws
  /// Error(resource) if this fails. Throws Error(usage) if the name of the folder is invalid, or if a killed process
  /// moved old files away and did not restore them.
  explicit StagedFiles(std::string folder);
  ~StagedFiles();
  StagedFiles(const StagedFiles&) = delete;
  StagedFiles& operator=(const StagedFiles&) = delete;

  /// Returns the path to which the caller must write the new file `name`.
  std::string path(std::string_view name) const;

  /// Replaces the files `names`. First moves all old files away, in the order of `names`. Then moves the new files into
  /// place, in the opposite order. The file names[0] therefore exists only while the other files belong to it. An old
  /// file without a new file of the same name is removed. If a step fails, moves the files back and throws
  /// Error(resource).
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
