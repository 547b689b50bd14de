// Detection of files that are not text, such as pictures or archives, whose bytes a model would otherwise learn.
#pragma once

#include <string>
#include <string_view>

namespace hexad::data {

/// A problem of a text, and its remedy. Both are empty if the text has no problem.
struct TextProblem {
  std::string what;    // completes "FILE: ", such as "is not text: byte 6 is 0x00"
  std::string remedy;  // such as "to convert UTF-16: iconv ..."

  explicit operator bool() const { return !what.empty(); }
};

/// Checks all of `contents`. The first byte that is zero or not UTF-8 is a problem.
TextProblem check_text(std::string_view contents);

/// Returns `contents` without the byte order mark that some programs put before UTF-8.
std::string_view without_byte_order_mark(std::string_view contents);

}  // namespace hexad::data
