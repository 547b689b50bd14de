// What a checkpoint costs, before there is one.
#pragma once

#include <string>

#include "tools/train/recipe.h"

namespace hexad::plan {

/// Bytes of the weights and optimizer states that a checkpoint holds, all ranks together.
double checkpoint_bytes(const train::Recipe& recipe, const train::Extensions& extensions);

/// How long writing `bytes` takes, and how that is known.
struct WriteTime {
  double seconds = 0;
  std::string source;  // "as the last saves of runs/a"; why it is not known, where `seconds` is 0
};

/// After the last saves in `run_dir`, where there are any; else after a file written there or in the nearest folder
/// above it that exists, by this process alone, in less than a second. The file is gone afterwards.
WriteTime estimate_write(const std::string& run_dir, double bytes);

}  // namespace hexad::plan
