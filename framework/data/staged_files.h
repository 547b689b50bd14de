// Files of a folder that are replaced together.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hexad::data {

/// Writer of files in `folder` that are replaced together. The caller writes the new files to a subfolder, and commit()
/// moves them to their final names. Before commit(), the old files do not change.
class StagedFiles {
 public:
  /// Creates `folder` if it does not exist, and removes new files that killed processes did not commit. Throws
  /// Error(resource) if the folder cannot be created or listed, but Error(usage) if the name of the folder is invalid.
  /// Also throws Error(usage) if an earlier commit() failed or was killed before it removed the old files that it had
  /// moved away.
  explicit StagedFiles(std::string folder);
  ~StagedFiles();
  StagedFiles(const StagedFiles&) = delete;
  StagedFiles& operator=(const StagedFiles&) = delete;

  /// Returns the path to which the caller must write the new file `name`.
  std::string path(std::string_view name) const;

  /// Replaces the files `names`. First moves all old files to another subfolder, in the order of `names`. Then moves
  /// the new files into place, in the opposite order. The file names[0] therefore exists only while the other files
  /// belong to it. An old file without a new file of the same name is removed.
  ///
  /// Throws Error(resource) if a step fails. If a move fails, first moves the files back as far as possible. If the new
  /// names cannot be flushed to disk, the new files stay in place. In this case, or if the process is killed, the old
  /// files may remain in the subfolder.
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
