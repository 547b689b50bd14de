#include "tools/hexad/commands/user_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "framework/base/error.h"

namespace hexad::app {

void require_replaceable(const std::string& path, std::string_view beginning, std::string_view kind) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return;
  std::string found(beginning.size(), '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(found.data(), static_cast<std::streamsize>(found.size()));
  found.resize(file.gcount());
  if (found.empty() || found == beginning) return;
  const bool is_printable = std::ranges::all_of(beginning, [](char c) { return c >= ' ' && c <= '~'; });
  const std::string reason =
      is_printable ? base::cat(", because it does not begin with '", beginning, "'") : std::string();
  base::fail(base::ExitCode::usage, path, ": exists but is not a ", kind, reason,
             "; choose another file name, or remove the existing file");
}

void require_two_files(std::string_view option, const std::string& path, std::string_view other_option,
                       const std::string& other_path) {
  namespace fs = std::filesystem;
  if (path.empty() || other_path.empty()) return;
  std::error_code error;
  if (fs::path(path).lexically_normal() != fs::path(other_path).lexically_normal() &&
      !fs::equivalent(path, other_path, error))
    return;
  base::fail(base::ExitCode::usage, option, " and ", other_option, " name the same file, ", path,
             "; choose another file for one of them");
}

}  // namespace hexad::app
