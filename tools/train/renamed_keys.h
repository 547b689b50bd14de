// What recipes of the version before call otherwise.
#pragma once

#include <string>
#include <vector>

#include "framework/config/document.h"

namespace hexad::train {

/// Gives the recipe's keys their present names; see config::rename_keys.
std::vector<std::string> rename_keys(config::Document& recipe);

}  // namespace hexad::train
