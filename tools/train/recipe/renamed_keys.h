// Keys and schedules that recipes of the version before call otherwise.
#pragma once

#include <string>
#include <vector>

#include "framework/config/document.h"

namespace hexad::train {

/// Gives the recipe's keys their present names; see config::rename_keys.
std::vector<std::string> rename_keys(config::Document& recipe);

/// The same for the names of schedules in a checkpoint's texts: ", parts 4" is ", chunks 4".
std::string rename_schedules(std::string text);

}  // namespace hexad::train
