// Formatting of numbers for readers, mostly with three significant digits and a unit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hexad::base {

/// Formats a count, for example of tokens or parameters, with k, M, B or T: "950", "1.23 M", "46.7 B".
std::string human_count(double value);
/// Formats `value` with an SI prefix before `unit`: "45.6 GFLOP/s".
std::string human_quantity(double value, std::string_view unit);
/// Formats a number of bytes with a binary prefix: "512 B", "1.50 GiB".
std::string human_bytes(double bytes);
/// Formats a duration: "850 ms", "12.3 s", "3 min 12 s", "2 h 05 min", "3 d 4 h"; "unknown" if it is not finite.
std::string human_duration(double seconds);
/// Formats a duration below a minute with three significant digits: "4.56 ms", "850 ms", "12.3 s". Formats a longer
/// duration like human_duration(). Unlike human_duration(), it distinguishes the durations of short steps.
std::string precise_duration(double seconds);
/// Formats a share as a percentage: 0.432 gives "43.2%". The share may be negative or above 1.
std::string human_percent(double share);
/// Format `value` with a number of decimals, or of significant digits; "NaN", "Inf" or "-Inf" if it is not finite.
std::string with_decimals(double value, int decimals);
std::string with_digits(double value, int digits);
/// Formats a loss, for example "3.4567"; "no targets" if `loss` is empty.
std::string human_loss(std::optional<double> loss);
/// Formats an MFU (model FLOPs utilization), for example "43.2%". Adds that the peak is set or measured too low if the
/// MFU exceeds 100%.
std::string human_mfu(double mfu);
/// Formats an integer with thousands separators: "1,234,567".
std::string grouped(int64_t value);

}  // namespace hexad::base
