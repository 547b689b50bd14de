// Selection of the files that `hexad prepare` reads: its inputs, and files in input folders. SkipReason lists the
// reasons for which files are skipped; the reason for each skipped file is recorded. The decompressed contents of a
// file named .gz or .zst decide whether the file is binary.
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
  /// compared with the path below the input and with the whole path; a leading `**/` also matches an empty path. A
  /// pattern that ends in a slash matches only folders. An empty `include` has no effect; otherwise, only files that
  /// match `include` are taken. Files that match `exclude` and the contents of folders that match `exclude` are never
  /// taken.
  std::vector<std::string> include = {}, exclude = {};
  bool follow_links = false;  // true: links in folders are followed; links that are inputs are always followed
  bool binary = false;        // true: files that are known to be binary are also taken
};

struct InputFile {
  std::string path;
  int64_t bytes = 0;               // size on disk; the compressed size if the file is compressed
  TextForm form = TextForm::text;  // set when the file is first read
  bool has_text = true;            // set when the file is first read; false if all of its documents are empty
};

/// Reason why a file or folder is skipped.
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
  /// Detail: the target of a link ("-> target"), the reason why a link is broken, the first name of the same file ("as
  /// PATH"), or the kind of a binary or special file.
  std::string what = {};
  std::string remedy = {};  // BinaryKind::remedy of a binary file
};

struct InputFiles {
  /// Files to read, in the order of the inputs and, within each folder, sorted by path. The dataset's documents are in
  /// this order. Files without text are included.
  std::vector<InputFile> taken;
  std::vector<SkippedFile> skipped;
  std::vector<std::string> idle_patterns;  // options whose pattern has matched nothing, such as "--exclude *.log"

  int64_t bytes() const;
  int64_t with_text() const;  // number of taken files that contain text
};

/// Selects the files. Each file is taken only once, even if it has several names in folders. The order of entries in
/// the file system has no effect. Throws one Error with all problems:
/// - Error(usage): an input does not exist, is given twice, or is neither a regular file nor a folder.
/// - Error(usage): all files are in the output folder.
/// - Error(data): a file or folder cannot be read, an input is known to be binary, or no file remains.
InputFiles find_inputs(const InputRules& rules);

/// Returns a string like "a.txt, b.txt". The string contains only the first three names and "..." if there are more
/// than six names.
std::string some_of(const std::vector<std::string>& names);
/// Returns one line for each reason and each kind of binary file, for example "2 hidden: texts/.a, texts/.git/" or
/// "1 PNG image: texts/a.png". The last line lists taken files that contain no text, if there are any: "1 file without
/// text: texts/b.txt".
std::vector<std::string> lines_of_skipped(const InputFiles& files);

}  // namespace hexad::data
