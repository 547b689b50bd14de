// Several files of a folder that are replaced together.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hexad::data {

/// New files are written to a folder of their own inside `folder` and take their places at commit(). Until then, and
/// after any failure, the files of `folder` are as they were.
class StagedFiles {
 public:
  /// Makes `folder` when it is missing, and removes what a killed process was writing there. Throws Error(resource);
  /// Error(usage) where such a process left files that it had moved out of their places.
  explicit StagedFiles(std::string folder);
  ~StagedFiles();
  StagedFiles(const StagedFiles&) = delete;
  StagedFiles& operator=(const StagedFiles&) = delete;

  /// Where to write the file that is to be `name`.
  std::string path(std::string_view name) const;

  /// Of the files `names`, those that were there go and those that were written come; a name of which there is nothing
  /// new is gone then. Old ones go in this order and new ones come in the opposite one, and no old file is left when
  /// the first new one comes: who needs the first name to read the others finds all old ones, or all new ones, or none.
  /// Throws Error(resource), with the old files back in their places.
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
  bool made_;  // the folder
  std::vector<Move> moves_;
};

}  // namespace hexad::data
