// Suggestions of existing folders in place of a path that does not exist.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace hexad::config {

/// Compares the first part of `path` that does not exist with the names of the folders next to it. Returns a text like
/// "; did you mean 'runs/sixteen'?" if a folder has a similar name. Otherwise returns the names of up to three folders,
/// most similar first, for example "; in 'runs' there are: four, ten, twelve and 1 more". Hidden folders are ignored.
/// Returns an empty text if `path` exists or there are no folders. In the working directory and in the root, only
/// similar folders are suggested.
std::string nearest_folders(const std::string& path);

/// Returns a text like "; below it: 'runs/four', 'runs/ten'". The text contains the first five files and folders
/// directly in `folder` that `accepted` accepts, sorted by path. The text ends like "and 2 more" if `accepted` accepts
/// more than five. Returns an empty text if there are none or `folder` cannot be listed.
std::string accepted_below(const std::string& folder,
                           const std::function<bool(const std::filesystem::path&)>& accepted);

}  // namespace hexad::config
