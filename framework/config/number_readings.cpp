#include "framework/config/number_readings.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "framework/base/error.h"

namespace hexad::config {
namespace {

using base::cat;

/// True if `whole`, which has commas, consists of groups of digits: "1,000", or "10,00,000" as written in India.
bool has_groups(std::string_view whole) {
  if (whole.starts_with('0')) return false;
  bool first = true;
  for (size_t begin = 0; begin <= whole.size();) {
    const size_t end = std::min(whole.find(',', begin), whole.size());
    const std::string_view group = whole.substr(begin, end - begin);
    const bool last = end == whole.size();
    const bool fits = last ? group.size() == 3 : group.size() <= 3 && group.size() >= (first ? 1 : 2);
    if (!fits || !std::ranges::all_of(group, is_digit)) return false;
    first = false;
    begin = end + 1;
  }
  return true;
}

/// Returns the unsigned number `digits` in the form that recipes accept: without leading zeros, and with a digit on
/// both sides of the point. Returns an empty text if `digits` is not a number or exceeds the range of a double.
std::string accepted(std::string digits) {
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size()) return "";
  size_t zeros = 0;
  while (zeros + 1 < digits.size() && digits[zeros] == '0' && is_digit(digits[zeros + 1])) ++zeros;
  digits.erase(0, zeros);
  if (digits.starts_with('.')) digits = cat("0", digits);
  if (const size_t point = digits.find('.'); point != std::string::npos)
    if (point + 1 == digits.size() || !is_digit(digits[point + 1])) digits.erase(point, 1);
  return digits;
}

/// Returns the readings of a number without sign.
std::vector<std::string> unsigned_readings(std::string_view text) {
  std::string plain(text);
  std::erase(plain, '_');
  if (plain.starts_with("0x") || plain.starts_with("0X")) {
    uint64_t value = 0;
    const char* const end = plain.data() + plain.size();
    const auto [stop, error] = std::from_chars(plain.data() + 2, end, value, 16);
    return error == std::errc{} && stop == end ? std::vector{cat(value)} : std::vector<std::string>{};
  }
  const auto commas = std::ranges::count(plain, ',');
  if (commas == 0) return {accepted(plain)};
  std::vector<std::string> readings;
  const std::string_view whole = std::string_view(plain).substr(0, plain.find_first_of(".eE"));
  if (std::ranges::count(whole, ',') == commas && has_groups(whole)) {
    std::string joined = plain;
    std::erase(joined, ',');
    readings.push_back(accepted(std::move(joined)));
  }
  if (commas == 1 && plain.find('.') == std::string::npos) {
    std::ranges::replace(plain, ',', '.');
    readings.push_back(accepted(std::move(plain)));
  }
  return readings;
}

}  // namespace

std::vector<std::string> number_readings(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (text.empty() || (!is_digit(text.front()) && text.front() != '.')) return {};
  std::vector<std::string> readings = unsigned_readings(text);
  std::erase(readings, "");
  if (negative)
    for (std::string& reading : readings) reading = cat("-", reading);
  return readings;
}

}  // namespace hexad::config
