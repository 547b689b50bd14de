// Estimates of a checkpoint's cost before the first checkpoint exists.
#pragma once

#include <string>

#include "tools/train/recipe/recipe.h"

namespace hexad::plan {

/// Returns the bytes of the weights and optimizer states in a checkpoint, for all ranks together.
double checkpoint_bytes(const train::Recipe& recipe, const train::Extensions& extensions);

/// Time of a write as a range, with the source of the estimate.
struct WriteTime {
  double least = 0, most = 0;  // seconds; 0 if unknown
  std::string source;          // "like the last saves of runs/a"; the reason if the time is unknown

  /// Returns "about 1.2 s", or "about 1.2 s to 8.0 s"; empty if the time is unknown.
  std::string text() const;
};

/// Estimates the time to write `bytes` from the fastest and the slowest of the last saves in `run_dir`. If there are
/// none, this process writes some pieces of a file in about a second. The file is in `run_dir` or in its nearest
/// existing parent, and is removed afterwards. The load of a disk changes from moment to moment. So the range begins at
/// half the time at the rate that a quarter of the pieces reach. It ends at twice the time at the rate that three
/// quarters reach.
WriteTime estimate_write(const std::string& run_dir, double bytes);

}  // namespace hexad::plan
