// Conversion of external text, such as file names, to text that is safe to print.
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

namespace hexad::base {

/// Returns `text` with each ASCII control character, except those in `kept`, replaced by an escape sequence such as
/// \x1b.
inline std::string escaped(std::string_view text, std::string_view kept = "") {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 || byte == 0x7f) && kept.find(c) == kept.npos)
      out += fmt::format("\\x{:02x}", byte);
    else
      out += c;
  }
  return out;
}

/// Like escaped(), for messages of several lines: keeps newlines and tabs.
inline std::string escaped_lines(std::string_view text) { return escaped(text, "\n\t"); }

}  // namespace hexad::base
