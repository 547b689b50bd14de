// Files that `hexad prepare` reads: its inputs, and the files in input folders. Hidden, excluded, linked and known
// binary files in folders are left out. The reason for each omitted file is recorded.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/data/jsonl.h"

namespace hexad::data {

struct InputRules {
  std::vector<std::string> inputs;  // files and folders
  std::string output = {};          // a folder that is not read; it may be missing
  /// Shell patterns. A pattern matches the name; a pattern with a slash matches the path below the input. If `include`
  /// is empty, every file is taken. Files that match `exclude` are never taken. An excluded folder is left out with all
  /// its contents.
  std::vector<std::string> include = {}, exclude = {};
  bool follow_links = false;  // follows links in folders; a link that is itself an input is always followed
  bool binary = false;        // also takes files that are known to be binary
};

struct InputFile {
  std::string path;
  int64_t bytes = 0;
  TextForm form = TextForm::text;  // set by the first reader
  bool has_text = true;            // set by the first reader: false if the file is empty or has only white space
};

/// Reason why a file in a folder is not taken.
enum class SkipReason : uint8_t {
  hidden,
  excluded,
  not_included,
  link,
  broken_link,
  same_file,
  special,
  binary,
  output
};

constexpr auto enum_names(SkipReason) {
  using enum SkipReason;
  return std::to_array<std::pair<SkipReason, std::string_view>>({{hidden, "hidden"},
                                                                 {excluded, "excluded"},
                                                                 {not_included, "not included"},
                                                                 {link, "link"},
                                                                 {broken_link, "broken link"},
                                                                 {same_file, "same file again"},
                                                                 {special, "no regular file"},
                                                                 {binary, "binary"},
                                                                 {output, "in the output"}});
}

struct SkippedFile {
  std::string path;
  SkipReason why;
  std::string what = {};    // target of a link ("-> target"), or the kind of a binary or special file
  std::string remedy = {};  // command that extracts text from a binary file, if it contains text
};

struct InputFiles {
  /// Files to read, in the order of the inputs, and sorted by path within each folder. Documents have the same order.
  /// Includes files without text.
  std::vector<InputFile> taken;
  std::vector<SkippedFile> skipped;
  std::vector<std::string> idle_patterns;  // patterns of include and exclude that match nothing

  int64_t bytes() const;
  int64_t with_text() const;  // number of taken files that contain text
};

/// Finds all files. Each file is taken once, even if it has several names in folders. The file system's order of
/// entries has no effect. Throws an Error with all problems together.
/// Error(usage): an input does not exist, is neither a regular file nor a folder, or is given twice.
/// Error(data): a file or folder cannot be read, an input is known to be binary, or no file is left.
InputFiles find_inputs(const InputRules& rules);

/// Returns "a.txt, b.txt"; for a long list, the first three names and "...".
std::string some_of(const std::vector<std::string>& names);
/// Returns a line for every reason: "2 hidden: texts/.git/, texts/.a", "1 PNG image: texts/a.png". The last line is for
/// files that contain no text: "1 file without text: texts/b.txt".
std::vector<std::string> lines_of_skipped(const InputFiles& files);

}  // namespace hexad::data
