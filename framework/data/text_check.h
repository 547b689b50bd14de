// Detection of files that are not text, such as images or archives. A model must not learn the bytes of such files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hexad::data {

/// A problem of a text, and its remedy. Both are empty if there is no problem.
struct TextProblem {
  std::string what;    // continues "FILE: ", for example "is not text: byte 6 is 0x00"
  std::string remedy;  // remedy for the user, such as a command that converts the text; empty: none is known

  explicit operator bool() const { return !what.empty(); }
};

/// Checks all of `contents`. Reports the first byte that is zero or is not UTF-8. Reports the encoding instead if the
/// beginning of `contents` looks like UTF-16 or UTF-32.
TextProblem check_text(std::string_view contents);

/// Checks a text that arrives in blocks, like check_text().
class TextCheck {
 public:
  /// Checks the next block. Returns the first problem of the text so far. add() and finish() must not be called after a
  /// problem.
  TextProblem add(std::string_view block);
  /// Returns a problem if the text ends inside a character.
  TextProblem finish() const;

 private:
  TextProblem problem_at(int64_t at, unsigned char byte, int64_t lines) const;

  std::string head_;     // first bytes of the text, which show its encoding
  std::string pending_;  // beginning of a character at the end of the text so far
  int64_t checked_ = 0;  // number of bytes before `pending_`
  int64_t lines_ = 0;    // number of line ends before `pending_`
};

/// Returns `contents` without the byte order mark that some programs write before UTF-8 text.
std::string_view without_byte_order_mark(std::string_view contents);

}  // namespace hexad::data
