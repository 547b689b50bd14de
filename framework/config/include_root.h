// Recipes that include files from outside their folder.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "framework/config/document.h"

namespace hexad::config {

/// Like load(), but included files may also be in the folder `include_root`. If it is empty, they must be in the
/// recipe's folder.
Document load(const std::filesystem::path& recipe, std::span<const std::string> overrides,
              const std::string& include_root);

}  // namespace hexad::config
