// Text of the recipe that `hexad plan --out` writes.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "framework/config/document.h"

namespace hexad::app {

/// Returns the YAML of a recipe that includes the file `include`. The YAML has the keys of `document` that were given
/// on the command line, and the keys and values in `settings`. If both have a key, the value in `settings` is written.
/// A list is written completely if one of its elements was given.
std::string overlay_text(const std::string& include, const config::Document& document,
                         const std::vector<std::pair<std::string, std::string>>& settings);

}  // namespace hexad::app
