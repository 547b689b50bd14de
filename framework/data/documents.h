// Rules by which a text is split into documents.
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
  /// blank_lines: the lines between two blank lines are a document.
  /// separator: the lines between two lines that equal `separator` are a document.
  /// The separating lines belong to no document.
  DocumentRule rule = DocumentRule::file;
  std::string separator;
  /// Maximum bytes of a document; 0: no limit. A longer document is divided into pieces, each of which becomes a
  /// document. As a result, a few long books also give a representative held-out part. A piece ends at a blank line in
  /// its second half or, if there is none, at the end of a line, at a space, or between two characters. Together, the
  /// pieces contain every byte.
  int64_t longest_bytes = 65536;
};

/// Minimum value of longest_bytes in recipes and options, other than 0.
inline constexpr int64_t least_split_bytes = 16;

/// Calls f with each document of `text`, in order. A document that contains only white space is passed as an empty
/// document.
void for_each_document(std::string_view text, const DocumentSplit& split,
                       const std::function<void(std::string_view)>& f);

}  // namespace hexad::data
