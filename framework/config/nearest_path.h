// Suggestions of existing folders in place of a path that does not exist.
#pragma once

#include <string>

namespace hexad::config {

/// Returns a text like "; did you mean 'runs/sixteen'?" if the last existing folder of `path` contains a similarly
/// named folder. Otherwise returns the names of the folders in it, most similar first, for example "; in 'runs' there
/// are: ten, twelve". Returns an empty text if `path` exists or there are no folders. In the working directory and in
/// the root, only similar folders are suggested.
std::string nearest_folders(const std::string& path);

}  // namespace hexad::config
