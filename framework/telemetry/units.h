// Numbers for people: three significant digits and a unit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hexad::telemetry {

/// "950", "1.23 M", "46.7 B": k, M, B, T for things one counts (tokens, parameters).
std::string human_count(double value);
/// "45.6 GFLOP/s": SI prefixes before `unit`.
std::string human_quantity(double value, std::string_view unit);
/// "512 B", "1.50 GiB": binary prefixes.
std::string human_bytes(double bytes);
/// "850 ms", "12.3 s", "3 min 12 s", "2 h 05 min", "3 d 4 h".
std::string human_duration(double seconds);
/// "43.2%" of a share 0..1.
std::string human_percent(double share);
/// Formats `value` with the given number of decimals, or of significant digits; "NaN", "Inf" or "-Inf".
std::string with_decimals(double value, int decimals);
std::string with_digits(double value, int digits);
/// "3.4567", or "no targets" where there was nothing to predict.
std::string human_loss(std::optional<double> loss);
/// "43.2%"; above 100% with the reason, which is not the machine.
std::string human_mfu(double mfu);
/// "1,234,567".
std::string grouped(int64_t value);

}  // namespace hexad::telemetry
