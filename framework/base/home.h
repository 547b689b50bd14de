// Expansion of ~ in paths that no shell has expanded.
#pragma once

#include <string>

namespace hexad::base {

/// Returns `path` with a leading "~" or "~user" replaced by the home folder, as a shell does. It is needed because bash
/// does not expand the ~ of run.dir=~/runs or --output=~/data. Other paths are returned unchanged. Throws Error(usage)
/// if the user or the home folder is unknown.
std::string expand_home(const std::string& path);

}  // namespace hexad::base
