// Conversion of external text, such as file names, to text that is safe to print.
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

namespace hexad::base {

/// Returns `text` with each ASCII control character replaced by an escape sequence such as \x1b.
inline std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f)
      out += fmt::format("\\x{:02x}", byte);
    else
      out += c;
  }
  return out;
}

}  // namespace hexad::base
