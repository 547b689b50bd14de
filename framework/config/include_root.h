// Recipes that include others from outside their folder.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "framework/config/document.h"

namespace hexad::config {

/// load(), but included files may also lie in the folder `include_root`; empty: in none but the recipe's.
Document load(const std::filesystem::path& recipe, std::span<const std::string> overrides,
              const std::string& include_root);

}  // namespace hexad::config
