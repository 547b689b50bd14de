// Shell patterns on names of parameters.
#pragma once

#include <span>
#include <string>

namespace hexad::base {

/// True if the shell pattern `pattern` matches the whole of `name`. * matches any characters, including dots. ? matches
/// one character. [...] matches one character of a set.
bool matches(const std::string& pattern, const std::string& name);
/// True if one of the patterns matches `name`.
bool matches_any(std::span<const std::string> patterns, const std::string& name);

}  // namespace hexad::base
