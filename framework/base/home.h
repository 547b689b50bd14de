// Expansion of "~" in paths that no shell has expanded.
#pragma once

#include <string>

namespace hexad::base {

/// Returns `path` with a leading "~" or "~user" replaced by the home folder, as in a shell. bash itself does not expand
/// the "~" in run.dir=~/runs or --output=~/data. Other paths do not change. Throws Error(usage) if the user or the home
/// folder is unknown.
std::string expand_home(const std::string& path);

}  // namespace hexad::base
