// Checks of UTF-8, and a printable form of bytes that are none.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace hexad::base {

/// Bytes of the UTF-8 sequence at the start of `s`; 0 when it is none (overlong, surrogate, cut short, past U+10FFFF).
size_t utf8_length(std::string_view s);

/// Returns `s` with U+FFFD in place of each part that is no UTF-8: once for the longest start of a character, else once
/// a byte, as the Unicode Standard recommends.
std::string valid_utf8(std::string_view s);

/// Text that comes in pieces, which may end inside a character, such as the tokens of a model.
class Utf8Pieces {
 public:
  /// Returns the characters that `bytes` complete, as valid_utf8() of the whole text has them.
  std::string add(std::string_view bytes);
  /// Returns U+FFFD if the text ends inside a character, else nothing.
  std::string finish();

 private:
  std::string pending_;  // the start of a character
};

}  // namespace hexad::base
