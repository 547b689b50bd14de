// Old names of keys and schedules that recipes and checkpoints of previous versions use.
#pragma once

#include <string>
#include <vector>

#include "framework/config/document.h"

namespace hexad::train {

/// Replaces old key names in the recipe with the current ones; see config::rename_keys.
std::vector<std::string> rename_keys(config::Document& recipe);

/// Replaces old words in the text of a schedule from a checkpoint: ", parts 4" becomes ", chunks 4".
std::string rename_schedules(std::string text);

}  // namespace hexad::train
