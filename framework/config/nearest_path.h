// Suggestion of folders that exist for a path of a user that does not.
#pragma once

#include <string>

namespace hexad::config {

/// Returns "; did you mean 'runs/sixteen'?" if a folder beside the first missing part of `path` has a similar name. If
/// none is similar, names the folders there, the most similar first: "; in 'runs' there are: ten, twelve". Returns an
/// empty text if `path` exists, if there is no folder to name, or if none in the working directory or the root is
/// similar.
std::string nearest_folders(const std::string& path);

}  // namespace hexad::config
