// Several files of a folder that are replaced together.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hexad::data {

/// Writes new files to a separate folder inside `folder` and moves them into place at commit(). Until then, and after
/// any failure, the files of `folder` are as they were.
class StagedFiles {
 public:
  /// Makes `folder` when it is missing, and removes what a killed process was writing there. Throws Error(resource);
  /// Error(usage) where such a process left files that it had moved out of their places.
  explicit StagedFiles(std::string folder);
  ~StagedFiles();
  StagedFiles(const StagedFiles&) = delete;
  StagedFiles& operator=(const StagedFiles&) = delete;

  /// Returns the path to write the file to that will be `name`.
  std::string path(std::string_view name) const;

  /// Replaces the files `names`: removes the old ones in this order, then moves the new ones into place in the opposite
  /// order. A name without a new file is gone afterwards. No old file is left when the first new one arrives: a reader
  /// that needs the first name to read the others finds all old files, all new ones, or none. Throws Error(resource),
  /// with the old files back in their places.
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
