// Rules that split a text into documents.
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
  /// file: each file is a document.
  /// blank_lines: each run of lines between blank lines is a document.
  /// separator: each run of lines between lines equal to `separator` is a document.
  /// The separating lines belong to no document.
  DocumentRule rule = DocumentRule::file;
  std::string separator;
  /// Maximum bytes of a document; 0: no limit. A longer document is cut into pieces, each a document, so that a few
  /// books still give a representative held-out part. The cut is at a blank line in the second half of the piece,
  /// otherwise at a line end, at a space, or between characters. The pieces contain every byte.
  int64_t longest_bytes = 65536;
};

/// Minimum value of longest_bytes that a user may choose.
inline constexpr int64_t least_split_bytes = 16;

/// Calls f with every document of `text` in order. A document of white space only is passed as an empty document.
void for_each_document(std::string_view text, const DocumentSplit& split,
                       const std::function<void(std::string_view)>& f);

}  // namespace hexad::data
