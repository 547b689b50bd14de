// Detection of files that are not text, such as images or archives. Without it, a model would learn their bytes.
#pragma once

#include <string>
#include <string_view>

namespace hexad::data {

/// A problem of a text, and its remedy. Both are empty if there is no problem.
struct TextProblem {
  std::string what;    // continues "FILE: ", for example "is not text: byte 6 is 0x00"
  std::string remedy;  // what the user can do, such as a command that converts the text

  explicit operator bool() const { return !what.empty(); }
};

/// Checks all of `contents`. Reports the first byte that is zero or is not UTF-8.
TextProblem check_text(std::string_view contents);

/// Returns `contents` without the byte order mark that some programs write before UTF-8 text.
std::string_view without_byte_order_mark(std::string_view contents);

}  // namespace hexad::data
