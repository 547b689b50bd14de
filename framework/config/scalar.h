// Single values: text to C++ value and back.
#pragma once

#include <string>

#include "framework/config/document.h"
#include "framework/config/type.h"

namespace hexad::config {

/// Reads a boolean, integer, byte size, real, text or enumeration. Returns what follows the key and its value in the
/// message, such as "must be an integer; write 1000", or an empty string when the value was set.
std::string read_scalar(const Node& node, void* value, const Type& type);

/// The YAML text that read_scalar turns into the same value: doubles in their shortest exact form, texts quoted if need
/// be; byte sizes in the largest binary unit that divides them.
std::string scalar_text(const void* value, const Type& type);

/// The value of an integer, byte size or real, the size of a text, the first value of a curve; 0 for other kinds.
long double magnitude(const void* value, const Type& type);

/// Describes what was written, for messages: the text, or "nothing", "a list", "a section".
std::string written_text(const Node& node);

}  // namespace hexad::config
