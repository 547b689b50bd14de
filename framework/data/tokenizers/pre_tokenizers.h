// Pre-tokenizers, which divide a text into pieces before the model encodes the pieces.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "framework/data/tokenizers/json_field.h"
#include "framework/data/tokenizers/regex.h"

namespace hexad::data {

/// A piece of a text. It refers to the text, or to a changed copy that the PieceList owns.
struct Piece {
  std::string_view text;
  bool first;  // true if the piece begins where the whole text begins
};

struct PieceList {
  std::vector<Piece> pieces;
  std::deque<std::string> changed;

  /// Stores a changed text and returns a view that is valid during the lifetime of the list.
  std::string_view keep(std::string text) { return changed.emplace_back(std::move(text)); }
};

/// Divides or changes one piece. Thread-safe.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  /// Appends the parts of `piece` to `out`, in order. The parts may be changed texts.
  virtual void split(const Piece& piece, PieceList& out) const = 0;
};

/// Treatment of the matches of a pattern. The names are the same as in tokenizer.json.
enum class SplitBehavior : uint8_t { isolated, removed, merged_with_previous, merged_with_next, contiguous };

struct RegexSplit {
  SplitBehavior behavior = SplitBehavior::isolated;
  bool invert = false;  // true: the texts between the matches are treated as the matches
};
std::unique_ptr<PreTokenizer> make_regex_split(Regex regex, RegexSplit options = {});

struct PreTokenizers {
  std::vector<std::unique_ptr<PreTokenizer>> steps;
  bool byte_level = false;  // true: the model's symbols are bytes, written in the byte alphabet in a tokenizer.json

  /// Divides `text`, which must outlive the result. `first` is true if `text` is the beginning of the whole text.
  PieceList split(std::string_view text, bool first) const;
};

/// Reads the pre-tokenizer of a tokenizer.json. Throws Error(data) that names the type if it is not supported.
PreTokenizers read_pre_tokenizers(const JsonField& json);

}  // namespace hexad::data
