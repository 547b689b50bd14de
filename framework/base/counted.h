// Counts in messages, with their nouns.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hexad::base {

/// Returns the singular or plural of `noun` for the number `n`: "rank" for 1, otherwise "ranks".
inline std::string plural(int64_t n, std::string_view noun) { return std::string(noun) + (n == 1 ? "" : "s"); }

/// Returns a count with its noun: "1 rank", "2 ranks".
inline std::string counted(int64_t n, std::string_view noun) { return std::to_string(n) + " " + plural(n, noun); }

}  // namespace hexad::base
