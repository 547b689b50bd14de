#include "tools/hexad/commands/user_file.h"

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
  base::fail(base::ExitCode::usage, path, ": exists but is not a ", kind, ", because it does not begin with '",
             beginning, "'; choose another file, or remove it");
}

}  // namespace hexad::app
