// Keys and schedules that have other names in recipes of the previous version.
#pragma once

#include <string>
#include <vector>

#include "framework/config/document.h"

namespace hexad::train {

/// Replaces old key names in the recipe with the current ones; see config::rename_keys.
std::vector<std::string> rename_keys(config::Document& recipe);

/// Replaces old names in the texts of schedules in a checkpoint: ", parts 4" becomes ", chunks 4".
std::string rename_schedules(std::string text);

}  // namespace hexad::train
