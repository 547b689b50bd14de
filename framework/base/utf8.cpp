#include "framework/base/utf8.h"

#include <algorithm>

namespace hexad::base {
namespace {

constexpr std::string_view replacement = "\xef\xbf\xbd";  // U+FFFD

// length: number of bytes that the first byte announces. valid: number of legal bytes at the start of the sequence.
struct Sequence {
  size_t length, valid;
};

// Returns the sequence at the start of `s`, which must not be empty.
Sequence sequence_at(std::string_view s) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(s[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {1, 1};
  if (lead < 0xc2 || lead > 0xf4) return {1, 0};
  const size_t length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  unsigned low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  unsigned high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  size_t valid = 1;
  while (valid < std::min(length, s.size()) && byte(valid) >= low && byte(valid) <= high) {
    ++valid;
    low = 0x80, high = 0xbf;
  }
  return {length, valid};
}

// Returns the number of bytes of `s` before an incomplete character at the end of `s`. Later bytes may complete this
// character. Returns the size of `s` if there is no incomplete character.
size_t whole_characters(std::string_view s) {
  for (size_t back = 1; back <= std::min<size_t>(3, s.size()); ++back) {
    const auto [length, valid] = sequence_at(s.substr(s.size() - back));
    if (valid == back && length > back) return s.size() - back;
  }
  return s.size();
}

}  // namespace

size_t utf8_length(std::string_view s) {
  if (s.empty()) return 0;
  const auto [length, valid] = sequence_at(s);
  return valid == length ? length : 0;
}

size_t utf8_characters(std::string_view s) {
  const auto begins_character = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; };
  return std::ranges::count_if(s, begins_character);
}

std::string valid_utf8(std::string_view s) {
  std::string out;
  while (!s.empty()) {
    const auto [length, valid] = sequence_at(s);
    out += valid == length ? s.substr(0, length) : replacement;
    s.remove_prefix(std::max<size_t>(1, valid));
  }
  return out;
}

std::string Utf8Pieces::add(std::string_view bytes) {
  pending_ += bytes;
  const size_t end = whole_characters(pending_);
  std::string text = valid_utf8(std::string_view(pending_).substr(0, end));
  pending_.erase(0, end);
  return text;
}

std::string Utf8Pieces::finish() {
  std::string text = valid_utf8(pending_);
  pending_.clear();
  return text;
}

}  // namespace hexad::base
