// Suggestions of existing folders for a path that does not exist.
#pragma once

#include <string>

namespace hexad::config {

/// Returns "; did you mean 'runs/sixteen'?" if a folder beside the first missing part of `path` has a similar name. If
/// none is similar, names the folders there, the most similar first: "; in 'runs' there are: ten, twelve". Returns an
/// empty text if `path` exists or there is no folder to name. In the working directory and the root, only similar
/// folders are named.
std::string nearest_folders(const std::string& path);

}  // namespace hexad::config
