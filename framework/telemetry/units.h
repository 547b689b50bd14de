// Numbers for people: three significant digits and a unit.
#pragma once

#include <cstdint>
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
/// "1,234,567".
std::string grouped(int64_t value);

}  // namespace hexad::telemetry
