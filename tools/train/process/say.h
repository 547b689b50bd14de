// Prints messages for the user to standard error.
#pragma once

#include <cstdio>
#include <string>

#include "framework/base/escaped.h"

namespace hexad::train {

/// Prints the line "hexad: TEXT" to standard error. Escapes control characters, which names in files may contain,
/// except newlines and tabs. Ignores write errors, such as a closed pipe (`2>&1 | head`), because the exit code shows
/// how the program ended.
inline void say(const std::string& text) { std::fputs(("hexad: " + base::escaped_lines(text) + "\n").c_str(), stderr); }

}  // namespace hexad::train
