// Added tokens: texts that are converted to one id each before the model encodes the remaining text.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/data/byte_ranges.h"

namespace hexad::data {

struct AddedToken {
  int32_t id;
  std::string text;
  bool special;                  // true: found only in the ranges `trusted` of split()
  bool normalized;               // true: searched in the normalized text; false: in the original text
  bool single_word;              // true: found only between characters that are not part of words
  bool strip_left, strip_right;  // true: the white space before (left) or after (right) the text belongs to the token
};

/// Finds tokens in a text. Uses the longest token if several tokens match at the same position.
class AddedTokens {
 public:
  explicit AddedTokens(std::vector<AddedToken> tokens = {});

  bool empty() const { return tokens_.empty(); }
  /// Calls `on_text` for each non-empty text between tokens and `on_token` for each token, in order. A special token
  /// that is not completely in one of the ranges `trusted` is treated as text. `text` must be valid UTF-8.
  void split(std::string_view text, const ByteRanges& trusted, const std::function<void(std::string_view)>& on_text,
             const std::function<void(int32_t)>& on_token) const;
  /// True if at least one token is special.
  bool have_special() const;
  /// True if `text` contains a special token.
  bool have_special_in(std::string_view text) const;

 private:
  // Returns the indices of the tokens that begin with `byte`, longest first.
  std::span<const uint32_t> beginning_with(char byte) const { return by_byte_[static_cast<unsigned char>(byte)]; }
  // Returns the token at byte `at` of `text`; null if there is none, or if it is special and not trusted. Sets `after`
  // to the byte at which the search continues.
  const AddedToken* token_at(std::string_view text, size_t at, const ByteRanges& trusted, size_t& after) const;

  std::vector<AddedToken> tokens_;                  // longest first
  bool has_ordinary_ = false;                       // true if at least one token is not special
  std::array<std::vector<uint32_t>, 256> by_byte_;  // indices of the tokens that begin with a byte, longest first
};

}  // namespace hexad::data
