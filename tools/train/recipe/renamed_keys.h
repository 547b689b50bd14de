// Old names of keys, values and schedules in recipes and checkpoints of the previous version.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "framework/config/document.h"

namespace hexad::train {

/// Replaces old names of keys in the recipe with the current names. Returns a line for each replacement; see
/// config::rename_keys.
std::vector<std::string> rename_keys(config::Document& recipe);

/// Returns the recipe with the current names of keys. Calls `warn` with a line for each replacement.
/// document_of_stage() needs this result if the recipe has old names.
config::Document with_current_names(config::Document recipe, const std::function<void(const std::string&)>& warn);

/// Replaces old words in the text of a schedule from a checkpoint: ", parts 4" becomes ", chunks 4".
std::string rename_schedules(std::string text);

}  // namespace hexad::train
