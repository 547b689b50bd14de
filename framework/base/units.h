// Readable numbers: three significant digits and a unit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hexad::base {

/// Returns "950", "1.23 M", "46.7 B": k, M, B, T for counts (tokens, parameters).
std::string human_count(double value);
/// Returns "45.6 GFLOP/s": SI prefixes before `unit`.
std::string human_quantity(double value, std::string_view unit);
/// Returns "512 B", "1.50 GiB": binary prefixes.
std::string human_bytes(double bytes);
/// Returns "850 ms", "12.3 s", "3 min 12 s", "2 h 05 min", "3 d 4 h".
std::string human_duration(double seconds);
/// Returns "43.2%" for a share of 0..1.
std::string human_percent(double share);
/// Formats `value` with the given number of decimals, or of significant digits; "NaN", "Inf" or "-Inf" if not finite.
std::string with_decimals(double value, int decimals);
std::string with_digits(double value, int digits);
/// Returns "3.4567", or "no targets" if there was nothing to predict.
std::string human_loss(std::optional<double> loss);
/// Returns "43.2%"; above 100%, adds that the peak is set or measured too low.
std::string human_mfu(double mfu);
/// Returns "1,234,567".
std::string grouped(int64_t value);

}  // namespace hexad::base
