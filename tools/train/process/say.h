// Prints messages for the user to standard error.
#pragma once

#include <cstdio>
#include <string>

namespace hexad::train {

/// Prints the line "hexad: TEXT" to standard error. Ignores write errors, such as a closed pipe (`2>&1 | head`),
/// because the exit code shows how the program ended.
inline void say(const std::string& text) { std::fputs(("hexad: " + text + "\n").c_str(), stderr); }

}  // namespace hexad::train
