// The imported model from which a run started.
#pragma once

#include <string>

#include "framework/config/document.h"
#include "framework/io/checkpoint.h"

namespace hexad::interop {

/// Returns the recipe of the run that wrote the checkpoint.
config::Document recipe_of(const io::Checkpoint& checkpoint);

/// Returns the folder with the config.json of the foreign model from which the checkpoint's run started. Follows
/// train.init_from over several runs. Returns an empty text if there is no such folder.
std::string find_origin(const io::Checkpoint& checkpoint);

}  // namespace hexad::interop
