// Conversion of counts for floating-point arithmetic.
#pragma once

#include <cstdint>

namespace hexad::plan {

/// Returns n as a double.
constexpr double number(int64_t n) { return static_cast<double>(n); }

}  // namespace hexad::plan
