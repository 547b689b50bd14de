// Suggestions for numbers that recipes do not accept: the decimal numbers that a text may mean.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hexad::config {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Returns the decimal numbers that `text` may mean, most likely first. Removes every `_`, commas between groups of
/// digits, a leading `+`, and zeros that YAML reads as octal. Converts hexadecimal integers. A single comma may also be
/// a decimal comma: "1,5" gives 1.5, and "1,000" gives 1000 and 1.000. Returns no number if `text` is not a number.
/// Also returns none for a decimal number beyond the range of a double, and for a hexadecimal number above 64 bits.
std::vector<std::string> number_readings(std::string_view text);

}  // namespace hexad::config
