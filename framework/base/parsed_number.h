// Numbers in texts.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace hexad::base {

/// Returns the number of type T that the whole text is, as std::from_chars() reads it; none if the text is not a number
/// or is outside the range of T.
template <class T>
std::optional<T> parsed_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

}  // namespace hexad::base
