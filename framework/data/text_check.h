// A picture or an archive among texts would be learnt byte by byte.
#pragma once

#include <string>
#include <string_view>

namespace hexad::data {

/// A problem of a text, and the way to mend it. Both are empty if nothing is.
struct TextProblem {
  std::string what;    // completes "FILE: ": "is not text: byte 6 is 0x00"
  std::string remedy;  // "to convert UTF-16: iconv ..."

  explicit operator bool() const { return !what.empty(); }
};

/// Looks at all of `contents`: the first byte that is no UTF-8, or is zero, is a problem.
TextProblem check_text(std::string_view contents);

/// `contents` without the byte order mark that some programs put before UTF-8.
std::string_view without_byte_order_mark(std::string_view contents);

}  // namespace hexad::data
