// Output of `hexad validate --nearest`.
#pragma once

#include <string>

#include "framework/base/error.h"
#include "framework/config/document.h"
#include "tools/plan/nearest_layout.h"
#include "tools/train/recipe/extensions.h"

namespace hexad::app {

/// Prints the legal layout on a number of ranks in `range` that is nearest to the layout of the recipe in `document`
/// (see plan::nearest_layout()). Prints "ranks N", "run_dir DIR", "steps N" (train.steps), and a line key.path=value
/// for each key that changes. Ignores layouts that exceed memory.limit_bytes. `path` is the recipe's name in messages.
/// Throws Error(usage) if the recipe is invalid, has stages, or has no legal layout.
base::ExitCode print_nearest_layout(const std::string& path, config::Document document, plan::RankRange range,
                                    const train::Extensions& extensions);

}  // namespace hexad::app
