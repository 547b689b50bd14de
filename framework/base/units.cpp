#include "framework/base/units.h"

#include <fmt/format.h>

#include <cmath>
#include <span>

namespace hexad::base {

namespace {

using namespace std::string_view_literals;

/// Removes the sign of a number whose digits are all zero.
std::string without_sign_of_zero(std::string text) {
  if (text.starts_with('-') && text.find_first_not_of("-0.") == std::string::npos) text.erase(0, 1);
  return text;
}

/// Formats `value` with three significant digits, or with all digits of its integer part if these are more. Below 1,
/// zeros at the end are omitted. Formats `value` without decimals if `whole` is true and `value` is an integer.
std::string three_digits(double value, bool whole) {
  const double size = std::abs(value);
  if (whole && value == std::round(value)) return fmt::format("{:.0f}", value);
  if (size < 0.9995) return fmt::format("{:.3g}", value);
  return fmt::format("{:.{}f}", value, size < 9.995 ? 2 : size < 99.95 ? 1 : 0);
}

std::string not_finite(double value) { return std::isnan(value) ? "NaN" : value < 0 ? "-Inf" : "Inf"; }

/// Divides by `base` until the value, rounded to an integer, is below `base`, or until the last prefix is reached.
/// Returns the number, for example "1.23", with prefix and unit.
std::string scaled(double value, double base, std::span<const std::string_view> prefixes, std::string_view unit) {
  if (!std::isfinite(value)) return not_finite(value);
  size_t i = 0;
  // 999.5 would be printed as "1000", so it gets the next prefix. With binary prefixes, 1000 .. 1023 is printed with
  // four digits.
  while (std::abs(value) >= base - 0.5 && i + 1 < prefixes.size()) value /= base, ++i;
  const std::string number = three_digits(value, i == 0);
  const bool bare = prefixes[i].empty() && unit.empty();
  return bare ? number : fmt::format("{} {}{}", number, prefixes[i], unit);
}

}  // namespace

std::string human_count(double value) {
  static constexpr std::string_view prefixes[] = {""sv, "k"sv, "M"sv, "B"sv, "T"sv};
  return scaled(value, 1000, prefixes, "");
}

std::string human_quantity(double value, std::string_view unit) {
  static constexpr std::string_view prefixes[] = {""sv, "k"sv, "M"sv, "G"sv, "T"sv, "P"sv, "E"sv};
  return scaled(value, 1000, prefixes, unit);
}

std::string human_bytes(double bytes) {
  static constexpr std::string_view prefixes[] = {""sv, "Ki"sv, "Mi"sv, "Gi"sv, "Ti"sv, "Pi"sv};
  return scaled(bytes, 1024, prefixes, "B");
}

std::string human_duration(double seconds) {
  if (!std::isfinite(seconds)) return "unknown";
  if (seconds < 0) return fmt::format("-{}", human_duration(-seconds));
  if (seconds < 0.9995) return fmt::format("{:.0f} ms", seconds * 1000);
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  const int64_t minutes = whole / 60, hours = minutes / 60, days = hours / 24;
  if (minutes < 60) return fmt::format("{} min {:02} s", minutes, whole % 60);
  if (hours < 24) return fmt::format("{} h {:02} min", hours, minutes % 60);
  return fmt::format("{} d {} h", days, hours % 24);
}

std::string precise_duration(double seconds) {
  const double size = std::abs(seconds);
  if (!(size < 59.95)) return human_duration(seconds);
  return size < 0.9995 ? three_digits(1e3 * seconds, false) + " ms" : three_digits(seconds, false) + " s";
}

std::string human_percent(double share) { return with_decimals(share * 100, 1) + "%"; }

std::string with_decimals(double value, int decimals) {
  return std::isfinite(value) ? without_sign_of_zero(fmt::format("{:.{}f}", value, decimals)) : not_finite(value);
}

std::string with_digits(double value, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}g}", value, digits) : not_finite(value);
}

std::string human_loss(std::optional<double> loss) { return loss ? with_decimals(*loss, 4) : "no targets"; }

std::string human_mfu(double mfu) {
  return human_percent(mfu) + (mfu > 1 ? " (the peak is set or measured too low)" : "");
}

std::string grouped(int64_t value) {
  std::string digits = fmt::format("{}", value);
  const size_t first = value < 0 ? 1 : 0;
  for (size_t end = digits.size(); end > first + 3;) digits.insert(end -= 3, 1, ',');
  return digits;
}

}  // namespace hexad::base
