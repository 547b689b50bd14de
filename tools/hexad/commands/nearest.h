// The answer of `hexad validate --nearest`.
#pragma once

#include <string>

#include "framework/base/error.h"
#include "framework/config/document.h"
#include "tools/train/recipe/extensions.h"

namespace hexad::app {

/// Prints the legal layout of at most `ranks` ranks that is nearest to that of the recipe in `document`
/// (plan::nearest_layout()): "ranks N", "run_dir DIR", then a line key.path=value for each key that changes. Layouts
/// that exceed memory.limit_bytes are left out. `path` is the name of the recipe in messages. Throws Error(usage) if
/// the recipe is wrong, has stages or has no legal layout.
base::ExitCode print_nearest_layout(const std::string& path, config::Document document, int64_t ranks,
                                    const train::Extensions& extensions);

}  // namespace hexad::app
