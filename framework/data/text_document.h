// A document before its conversion to tokens.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace hexad::data {

/// A part of a conversation. A token may contain bytes of several parts (see encode_document()).
struct DocumentPart {
  size_t end = 0;       // the part ends before this byte of the document
  bool mark = false;    // true if the part is a mark of the chat form, not the text of a turn
  bool answer = false;  // true if the part belongs to an answer
  bool learned = true;  // false: the tokens of the answer are not targets (see targets_of_end())

  bool operator==(const DocumentPart&) const = default;
};

struct Document {
  std::string text;
  std::vector<DocumentPart> parts = {};  // empty: plain text, all of whose tokens are targets
  std::string place = {};                // location for messages: the file, and the line or object
  bool from_chat_template = false;       // true: written by a model's chat template; see encode_document()

  /// True if the last turn with text is a learned answer. The last part that is not a mark belongs to this turn.
  bool ends_with_answer() const {
    for (auto part = parts.rbegin(); part != parts.rend(); ++part)
      if (!part->mark) return part->answer && part->learned;
    return false;
  }
  bool operator==(const Document&) const = default;
};

}  // namespace hexad::data
