// Decoding of single characters of valid UTF-8, and tests for white space.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <unicode/uchar.h>

namespace hexad::data {

struct CodePoint {
  uint32_t value;
  size_t bytes;
};

/// Returns the first character of `text`, which must be valid UTF-8 and not empty.
inline CodePoint code_point_at(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xe0 && text.size() >= 2) return {(lead & 31) << 6 | (byte(1) & 63), 2};
  if (lead < 0xf0 && text.size() >= 3) return {(lead & 15) << 12 | (byte(1) & 63) << 6 | (byte(2) & 63), 3};
  if (text.size() >= 4) return {(lead & 7) << 18 | (byte(1) & 63) << 12 | (byte(2) & 63) << 6 | (byte(3) & 63), 4};
  return {lead, 1};
}

/// Returns the last character of `text`, which must be valid UTF-8 and not empty.
inline CodePoint last_code_point(std::string_view text) {
  size_t begin = text.size() - 1;
  while (begin > 0 && text.size() - begin < 4 && (static_cast<unsigned char>(text[begin]) & 0xc0) == 0x80) --begin;
  return code_point_at(text.substr(begin));
}

inline bool is_white_space(CodePoint c) { return u_isUWhiteSpace(static_cast<UChar32>(c.value)) != 0; }

/// Returns `text`, which must be valid UTF-8, without the white space at its beginning.
inline std::string_view without_leading_space(std::string_view text) {
  while (!text.empty() && is_white_space(code_point_at(text))) text.remove_prefix(code_point_at(text).bytes);
  return text;
}

}  // namespace hexad::data
