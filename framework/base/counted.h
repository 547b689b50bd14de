// Numbers with their nouns, for messages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hexad::base {

/// Returns `noun` if n is 1, otherwise `noun` with an "s": "rank" or "ranks".
inline std::string plural(int64_t n, std::string_view noun) { return std::string(noun) + (n == 1 ? "" : "s"); }

/// Returns a number with its noun, for example "1 rank" or "2 ranks".
inline std::string counted(int64_t n, std::string_view noun) { return std::to_string(n) + " " + plural(n, noun); }

}  // namespace hexad::base
