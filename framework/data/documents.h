// Rules that cut a text into documents.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace hexad::data {

enum class DocumentRule : uint8_t { file, blank_lines, separator };

constexpr auto enum_names(DocumentRule) {
  return std::to_array<std::pair<DocumentRule, std::string_view>>({{DocumentRule::file, "file"},
                                                                   {DocumentRule::blank_lines, "blank_lines"},
                                                                   {DocumentRule::separator, "separator"}});
}

struct DocumentSplit {
  /// file: a file is a document. blank_lines: runs of lines between blank ones are. separator: runs of lines between
  /// lines that equal `separator` are. The separating lines belong to no document.
  DocumentRule rule = DocumentRule::file;
  std::string separator;
  /// Longer documents are cut into pieces of at most this many bytes, each a document, so that a few books still give a
  /// representative held-out part; at a blank line if one is in the second half of the piece, else at a line end, a
  /// space, or between characters. Pieces keep every byte. 0: never cut.
  int64_t longest_bytes = 65536;
};

/// The shortest that a user may ask for.
inline constexpr int64_t least_split_bytes = 16;

/// Calls f with every document of `text` in order. Documents without any character but white space are passed as empty.
void for_each_document(std::string_view text, const DocumentSplit& split,
                       const std::function<void(std::string_view)>& f);

}  // namespace hexad::data
