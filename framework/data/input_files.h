// Selection of the files that `hexad prepare` reads: its inputs, and files in input folders. In folders, hidden,
// excluded and linked files and known binary files are skipped. Files named .gz or .zst are judged by their
// decompressed contents. The reason for each skipped file is recorded.
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
  std::string output = {};          // folder that is not read; it need not exist
  /// Shell patterns. A pattern without a slash is compared with the name of a file or folder. A pattern with a slash is
  /// compared with the path below the input. If `include` is empty, every file is taken. Files that match `exclude` and
  /// the contents of folders that match it are never taken.
  std::vector<std::string> include = {}, exclude = {};
  bool follow_links = false;  // true: links in folders are followed; links that are inputs are always followed
  bool binary = false;        // true: files that are known to be binary are also taken
};

struct InputFile {
  std::string path;
  int64_t bytes = 0;               // size on disk; the compressed size if the file is compressed
  TextForm form = TextForm::text;  // set when the file is first read
  bool has_text = true;            // set when the file is first read; false if the file is empty or contains only white
                                   // space
};

/// Reason why a file in a folder is skipped.
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
  std::string remedy = {};  // command that extracts the text from a binary file; empty if the file contains no text
};

struct InputFiles {
  /// Files to read, in the order of the inputs and, within each folder, sorted by path. The dataset's documents are in
  /// this order. Files without text are included.
  std::vector<InputFile> taken;
  std::vector<SkippedFile> skipped;
  std::vector<std::string> idle_patterns;  // patterns of `include` and `exclude` that have matched nothing

  int64_t bytes() const;
  int64_t with_text() const;  // number of taken files that contain text
};

/// Selects the files. Each file is taken only once, even if it has several names in folders. The order of entries in
/// the file system has no effect. Throws one Error with all problems.
/// Error(usage): an input does not exist, is neither a regular file nor a folder, or is given twice. Error(data): a
/// file or folder cannot be read, an input is known to be binary, or no file remains.
InputFiles find_inputs(const InputRules& rules);

/// Returns a text like "a.txt, b.txt". For a long list, the text contains the first three names and "...".
std::string some_of(const std::vector<std::string>& names);
/// Returns one line for each reason, for example "2 hidden: texts/.git/, texts/.a" or "1 PNG image: texts/a.png". The
/// last line lists taken files that contain no text: "1 file without text: texts/b.txt".
std::vector<std::string> lines_of_skipped(const InputFiles& files);

}  // namespace hexad::data
