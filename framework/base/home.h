// Paths that begin with ~, where no shell has replaced it.
#pragma once

#include <string>

namespace hexad::base {

/// `path` with a leading "~" or "~user" replaced by the home folder, as a shell does it: bash leaves the ~ of
/// run.dir=~/runs and of --output=~/data alone. Other paths are returned as they are. Throws Error(usage) for a user or
/// a home folder that is not known.
std::string expand_home(const std::string& path);

}  // namespace hexad::base
