// Conversion of single values between text and C++.
#pragma once

#include <string>

#include "framework/config/document.h"
#include "framework/config/type.h"

namespace hexad::config {

/// Reads a boolean, integer, byte size, real, text or enumeration. Returns an empty string if the value was set.
/// Otherwise returns the end of the message that follows the key and its value, for example "must be an integer; write
/// 1000".
std::string read_scalar(const Node& node, void* value, const Type& type);

/// Returns a YAML text that read_scalar() converts to the same value. Doubles are written in their shortest exact form.
/// All texts are quoted except simple words that every YAML reader reads as texts. Byte sizes have the largest unit
/// from KiB to TiB that divides them, or no unit.
std::string scalar_text(const void* value, const Type& type);

/// Returns the number to which limits apply: the value of an integer, byte size or real, the size of a text, or the
/// first y of a curve. Returns 0 for other kinds.
long double magnitude(const void* value, const Type& type);

/// Returns a text for messages that describes the value in the recipe. The text is shown() of a scalar, or "nothing",
/// "a list" or "a section".
std::string written_text(const Node& node);

}  // namespace hexad::config
