#include "framework/data/jinja/text.h"

#include <algorithm>

#include "framework/base/utf8.h"

namespace hexad::data::jinja {
namespace {

size_t leading(std::string_view text, std::span<const std::string_view> removed) {
  size_t bytes = 0;
  while (true) {
    const std::string_view rest = text.substr(bytes);
    const auto found = std::ranges::find_if(removed, [&](std::string_view c) { return rest.starts_with(c); });
    if (found == removed.end()) return bytes;
    bytes += found->size();
  }
}

size_t trailing(std::string_view text, std::span<const std::string_view> removed) {
  const size_t size = text.size();
  while (true) {
    const auto found = std::ranges::find_if(removed, [&](std::string_view c) { return text.ends_with(c); });
    if (found == removed.end()) return size - text.size();
    text.remove_suffix(found->size());
  }
}

}  // namespace

Text Text::part(size_t begin, size_t count) const {
  Text text;
  text.bytes_ = bytes_.substr(begin, count);
  text.origins_ = origins_.substr(begin, count);
  return text;
}

std::span<const std::string_view> white_space() {
  static const std::vector<std::string_view> characters = characters_of(
      " \n\t\r\v\f\x1c\x1d\x1e\x1f\xc2\x85\xc2\xa0\xe1\x9a\x80\xe2\x80\x80\xe2\x80\x81\xe2\x80\x82\xe2\x80\x83"
      "\xe2\x80\x84\xe2\x80\x85\xe2\x80\x86\xe2\x80\x87\xe2\x80\x88\xe2\x80\x89\xe2\x80\x8a\xe2\x80\xa8\xe2\x80\xa9"
      "\xe2\x80\xaf\xe2\x81\x9f\xe3\x80\x80");
  return characters;
}

std::vector<std::string_view> characters_of(std::string_view text) {
  std::vector<std::string_view> characters;
  while (!text.empty()) {
    const size_t length = std::max<size_t>(base::utf8_length(text), 1);
    characters.push_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return characters;
}

size_t leading_white_space(std::string_view text) { return leading(text, white_space()); }

size_t trailing_white_space(std::string_view text) { return trailing(text, white_space()); }

Text stripped(const Text& text, std::span<const std::string_view> removed, Side side) {
  std::string_view bytes = text.bytes();
  const size_t begin = side == Side::right ? 0 : leading(bytes, removed);
  bytes.remove_prefix(begin);
  const size_t end = side == Side::left ? 0 : trailing(bytes, removed);
  return text.part(begin, bytes.size() - end);
}

}  // namespace hexad::data::jinja
