#include "framework/data/pretokenize.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace hexad::data {
namespace {

enum class Kind : uint8_t { space, letter, digit, other };

constexpr std::array<Kind, 256> byte_kinds = [] {
  std::array<Kind, 256> kinds{};
  for (size_t c = 0; c < 256; ++c) {
    const bool upper = c >= 'A' && c <= 'Z', lower = c >= 'a' && c <= 'z';
    const bool space = c == ' ' || (c >= '\t' && c <= '\r');
    kinds[c] = space                  ? Kind::space
               : upper || lower       ? Kind::letter
               : c >= '0' && c <= '9' ? Kind::digit
               : c >= 128             ? Kind::letter
                                      : Kind::other;
  }
  return kinds;
}();

struct Character {
  Kind kind;
  size_t bytes;
};

Character character_at(std::string_view text, size_t i) {
  const auto byte = [&](size_t k) { return static_cast<unsigned char>(text[k]); };
  const bool symbol = byte(i) == 0xE2 && i + 2 < text.size() && byte(i + 1) >= 0x80 && byte(i + 1) <= 0xAF;
  return symbol ? Character{Kind::other, 3} : Character{byte_kinds[byte(i)], 1};
}

// Returns the end of the run of characters of kind `kind` that begins at `i`, but at most `limit`.
size_t run_end(std::string_view text, size_t i, Kind kind, size_t limit) {
  limit = std::min(limit, text.size());
  while (i < limit) {
    const Character c = character_at(text, i);
    if (c.kind != kind || i + c.bytes > limit) break;
    i += c.bytes;
  }
  return i;
}

// Returns the length of a contraction ("'s", "'ll", ...) at the start of `text`; 0 if there is none.
size_t contraction(std::string_view text) {
  for (std::string_view suffix : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
    if (!text.starts_with(suffix)) continue;
    const size_t n = suffix.size();
    if (n == text.size() || character_at(text, n).kind != Kind::letter) return n;
  }
  return 0;
}

}  // namespace

size_t first_piece(std::string_view text) {
  if (const size_t n = contraction(text)) return n;
  if (character_at(text, 0).kind == Kind::space) {
    const size_t end = run_end(text, 0, Kind::space, longest_piece);
    const bool run_goes_on = end == text.size() || character_at(text, end).kind == Kind::space;
    if (run_goes_on || text[end - 1] != ' ') return end;
    if (end > 1) return end - 1;
  }
  const size_t begin = text[0] == ' ' ? 1 : 0;
  const Kind kind = character_at(text, begin).kind;
  return run_end(text, begin, kind, kind == Kind::digit ? begin + 3 : longest_piece);
}

}  // namespace hexad::data
