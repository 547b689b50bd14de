// Messages of a program to its user, apart from its results.
#pragma once

#include <cstdio>
#include <string>

namespace hexad::train {

/// Prints the line "hexad: TEXT" on standard error. A closed standard error (`2>&1 | head`) is not a failure, because
/// the exit code shows how the program ended.
inline void say(const std::string& text) { std::fputs(("hexad: " + text + "\n").c_str(), stderr); }

}  // namespace hexad::train
