// Checks of UTF-8, and conversion of other bytes to printable text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace hexad::base {

/// Returns the length in bytes of the UTF-8 sequence at the start of `s`; 0 if `s` is empty or the sequence is invalid.
/// An invalid sequence has a wrong byte, is truncated or longer than necessary, or is a surrogate or above U+10FFFF.
size_t utf8_length(std::string_view s);

/// Returns the number of code points of `s`, which must be valid UTF-8.
size_t utf8_characters(std::string_view s);

/// Returns `s` with U+FFFD in place of each part that is not UTF-8. As the Unicode Standard recommends, a part is the
/// longest valid beginning of an incomplete character, or a single wrong byte.
std::string valid_utf8(std::string_view s);

/// Decodes text that arrives in pieces, such as the tokens of a model. A piece may end inside a character.
class Utf8Pieces {
 public:
  /// Appends `bytes` and returns the characters that are now complete. The results of all add() calls and of finish()
  /// together equal valid_utf8() of the whole text.
  std::string add(std::string_view bytes);
  /// Returns U+FFFD if the text ends inside a character; otherwise an empty text.
  std::string finish();

 private:
  std::string pending_;  // incomplete character at the end of the text so far
};

}  // namespace hexad::base
