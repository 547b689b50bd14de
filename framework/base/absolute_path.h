// Paths that remain valid after the working directory has changed.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>

namespace hexad::base {

/// Returns `path` as an absolute path. A relative path begins in the working directory. An empty path remains empty.
/// Returns `path` unchanged if the working directory no longer exists.
inline std::string absolute_path(const std::string& path) {
  if (path.empty()) return path;
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  return error ? path : absolute.string();
}

}  // namespace hexad::base
