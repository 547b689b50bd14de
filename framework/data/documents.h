// Rules by which a text is split into documents.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hexad::data {

enum class DocumentRule : uint8_t { file, blank_lines, separator };

constexpr auto enum_names(DocumentRule) {
  return std::to_array<std::pair<DocumentRule, std::string_view>>({{DocumentRule::file, "file"},
                                                                   {DocumentRule::blank_lines, "blank_lines"},
                                                                   {DocumentRule::separator, "separator"}});
}

struct DocumentSplit {
  /// Rule that divides a file into documents:
  /// - file: each file is a document.
  /// - blank_lines: the lines between two blank lines are a document.
  /// - separator: the lines between two lines that equal `separator` are a document.
  /// The separating lines belong to no document.
  DocumentRule rule = DocumentRule::file;
  std::string separator;
  /// Maximum bytes of a document; 0: no limit. A longer document is divided into pieces, which are separate documents.
  /// Without this limit, a few long books would not give a representative held-out part. Every piece but the last has
  /// between longest_bytes / 2 and longest_bytes bytes. Within these limits, it ends after the last empty line,
  /// otherwise after the last line end, otherwise after the last space. If none of these exists, the piece is as long
  /// as possible and ends between two characters. Together, the pieces contain every byte.
  int64_t longest_bytes = 65536;
};

/// Returns the limit of --split-bytes for messages: "2000 now", or "no limit now".
std::string present_limit(const DocumentSplit& split);

/// Minimum of --split-bytes, other than 0.
inline constexpr int64_t least_split_bytes = 16;

using TakeText = std::function<void(std::string_view document)>;

/// Divides a text that arrives in blocks into documents. Keeps at most one document in memory. If documents are
/// divided, keeps only one piece and the white space at the beginning of the document.
class DocumentSplitter {
 public:
  /// Calls `take` with each document, in order. A document that contains only white space is passed as an empty
  /// document. add() and finish() throw Error(data) whose message begins with `name` if more than largest_document
  /// bytes must be kept in memory.
  DocumentSplitter(std::string name, DocumentSplit split, TakeText take);

  void add(std::string_view block);
  /// Ends the text and passes its last document.
  void finish();

 private:
  void add_line(std::string_view part, bool ends);
  bool separates(std::string_view line) const;
  bool may_separate(std::string_view beginning) const;
  void pass_boundary();
  void append(std::string_view text);
  void pass(std::string_view piece);
  void end_document();
  void require_room(size_t bytes) const;

  std::string name_;
  DocumentSplit split_;
  TakeText take_;
  std::string line_;                 // beginning of a line that may separate documents
  bool in_line_ = false;             // true if the beginning of the current line is part of the document
  bool open_ = false;                // true if the current document has bytes
  std::string text_;                 // rest of the document that has not been passed
  std::vector<std::string> blanks_;  // pieces of white space at the beginning of the document
  size_t blank_bytes_ = 0;
  bool has_text_ = false;  // true if a piece with text has been passed for this document
};

/// Calls f with each document of `text`, like DocumentSplitter.
void for_each_document(std::string_view text, const DocumentSplit& split, const TakeText& f);

}  // namespace hexad::data
