// Keys and schedules that have other names in recipes of the previous version.
#pragma once

#include <string>
#include <vector>

#include "framework/config/document.h"

namespace hexad::train {

/// Gives the recipe's keys their present names; see config::rename_keys.
std::vector<std::string> rename_keys(config::Document& recipe);

/// Gives schedules in a checkpoint's texts their present names: ", parts 4" becomes ", chunks 4".
std::string rename_schedules(std::string text);

}  // namespace hexad::train
