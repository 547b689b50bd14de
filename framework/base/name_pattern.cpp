#include "framework/base/name_pattern.h"

#include <fnmatch.h>

#include <algorithm>

namespace hexad::base {

bool matches(const std::string& pattern, const std::string& name) {
  return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

bool matches_any(std::span<const std::string> patterns, const std::string& name) {
  return std::ranges::any_of(patterns, [&](const std::string& pattern) { return matches(pattern, name); });
}

}  // namespace hexad::base
