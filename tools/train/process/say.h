// Messages of a program to its user, apart from its results.
#pragma once

#include <cstdio>
#include <string>

#include <fmt/core.h>

namespace hexad::train {

/// Prints "hexad: text", a line on standard error.
inline void say(const std::string& text) { fmt::print(stderr, "hexad: {}\n", text); }

}  // namespace hexad::train
