// Parsing of numbers.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace hexad::base {

/// Parses the whole text as a number of type T with std::from_chars(). Returns nullopt if the text is not a number or
/// the number is outside the range of T.
template <class T>
std::optional<T> parsed_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

}  // namespace hexad::base
