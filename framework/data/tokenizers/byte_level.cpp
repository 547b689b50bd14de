#include "framework/data/tokenizers/byte_level.h"

#include <array>
#include <cstdint>

#include "framework/data/tokenizers/code_point.h"

namespace hexad::data {
namespace {

// Bytes by code point; -1: not in the alphabet. A visible Latin-1 character represents the byte that equals its code
// point. The characters from U+0100 on represent the other bytes, in order.
constexpr std::array<int16_t, 512> alphabet = [] {
  std::array<int16_t, 512> bytes{};
  bytes.fill(-1);
  size_t next = 256;
  for (int16_t b = 0; b < 256; ++b) {
    const bool printable = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
    bytes[printable ? static_cast<size_t>(b) : next++] = b;
  }
  return bytes;
}();

}  // namespace

std::optional<std::string> bytes_of_symbols(std::string_view token) {
  std::string bytes;
  while (!token.empty()) {
    const CodePoint c = code_point_at(token);
    if (c.value >= alphabet.size() || alphabet[c.value] < 0) return std::nullopt;
    bytes += static_cast<char>(alphabet[c.value]);
    token.remove_prefix(c.bytes);
  }
  return bytes;
}

std::string fallback_name(unsigned char byte) {
  constexpr std::string_view hex = "0123456789ABCDEF";
  std::string name = "<0x";
  name += hex[byte >> 4];
  name += hex[byte & 15];
  return name += '>';
}

}  // namespace hexad::data
