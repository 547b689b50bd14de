// The files that `hexad prepare` reads: its inputs, and the files in input folders except those that are hidden,
// excluded, links, or known not to be text. Remembers the reason for each file that is left out.
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
  /// Patterns of the shell, of the name, or with a slash of the path below the input: without any `include` every file
  /// is taken, and none that `exclude` matches. A folder that `exclude` matches is left out with all that it holds.
  std::vector<std::string> include = {}, exclude = {};
  bool follow_links = false;  // in folders; a link that is itself an input is always followed
  bool binary = false;        // what is known to be no text is taken, too
};

struct InputFile {
  std::string path;
  int64_t bytes = 0;
  TextForm form = TextForm::text;  // set by the first who reads it
};

/// Why a file in a folder is not taken.
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
std::string_view name_of(SkipReason reason);

struct SkippedFile {
  std::string path;
  SkipReason why;
  std::string what = {};    // of a link: "-> target"; of what is no text: its kind; of what is no file: what it is
  std::string remedy = {};  // of a binary file that holds text: how it comes out
};

struct InputFiles {
  std::vector<InputFile> taken;  // by input, and sorted by path within each folder: the order of their documents
  std::vector<SkippedFile> skipped;
  std::vector<std::string> idle_patterns;  // of include and exclude: those that match nothing

  int64_t bytes() const;
};

/// Throws, with all problems at once, Error(usage) naming inputs that do not exist, are no regular file or folder, or
/// are there twice; Error(data) for files and folders that cannot be read, for inputs that are known to be no text, and
/// when no file is left. Every file is taken once, whatever names it has in folders. The order in which the file system
/// lists files has no effect.
InputFiles find_inputs(const InputRules& rules);

}  // namespace hexad::data
