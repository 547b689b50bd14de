// Division of a text into pieces before the model sees them.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "framework/data/tokenizers/json_field.h"
#include "framework/data/tokenizers/regex.h"

namespace hexad::data {

/// A piece of a text. It refers to the text, or to a changed copy that its list owns.
struct Piece {
  std::string_view text;
  bool first;  // the piece begins where the whole text begins
};

struct PieceList {
  std::vector<Piece> pieces;
  std::deque<std::string> changed;

  /// Keeps a changed text as long as the list.
  std::string_view keep(std::string text) { return changed.emplace_back(std::move(text)); }
};

/// Divides one piece. Thread-safe.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  /// Appends the parts of `piece` to `out`, in order.
  virtual void split(const Piece& piece, PieceList& out) const = 0;
};

/// Treatment of the matches of a pattern. The names are those of tokenizer.json.
enum class SplitBehavior : uint8_t { isolated, removed, merged_with_previous, merged_with_next, contiguous };

struct RegexSplit {
  SplitBehavior behavior = SplitBehavior::isolated;
  bool invert = false;  // true: the text between the matches counts as the matches
};
std::unique_ptr<PreTokenizer> make_regex_split(Regex regex, RegexSplit options = {});

struct PreTokenizers {
  std::vector<std::unique_ptr<PreTokenizer>> steps;
  bool byte_level = false;  // the model's symbols are bytes, and its vocabulary is written in the byte alphabet

  /// Divides `text`, which must outlive the result.
  PieceList split(std::string_view text, bool first) const;
};

/// Reads the pre-tokenizer of a tokenizer.json. Throws Error(data) that names a kind that is not supported.
PreTokenizers read_pre_tokenizers(const JsonField& json);

}  // namespace hexad::data
