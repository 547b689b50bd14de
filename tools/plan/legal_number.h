// Texts of numbers that messages propose.
#pragma once

#include <string>

#include <fmt/format.h>

#include "framework/base/parsed_number.h"

namespace hexad::plan {

/// Returns `limit`, for which `legal`(limit) must be true, as a text that is rounded to `digits` significant digits.
/// Rounds to more digits if the rounded number would be illegal, so that a user can write the text into the file.
template <class Legal>
std::string legal_number(double limit, const Legal& legal, int digits = 4) {
  constexpr int exact = 17;  // a double is read back from this number of digits without a change
  std::string text = fmt::format("{:.{}g}", limit, digits);
  while (digits < exact && !legal(base::parsed_number<double>(text).value_or(limit)))
    text = fmt::format("{:.{}g}", limit, ++digits);
  return text;
}

}  // namespace hexad::plan
