// Estimates of a checkpoint's cost, before there is one.
#pragma once

#include <string>

#include "tools/train/recipe/recipe.h"

namespace hexad::plan {

/// Bytes of the weights and optimizer states that a checkpoint holds, all ranks together.
double checkpoint_bytes(const train::Recipe& recipe, const train::Extensions& extensions);

/// Time of a write as a range, and how it is known.
struct WriteTime {
  double least = 0, most = 0;  // seconds; 0 where it is not known
  std::string source;          // "like the last saves of runs/a"; where it is not known, why

  /// "about 1.2 s", or "about 1.2 s to 8.0 s"; empty where it is not known.
  std::string text() const;
};

/// Estimates writing `bytes` from the fastest and the slowest of the last saves in `run_dir`, if there are any. Else
/// from some pieces of a file, which this process writes there, or in the nearest folder above it that exists, in about
/// a second; the file is gone afterwards. A disk's other work changes from one moment to the next. So the range goes
/// from half the time at the rate that a quarter of the pieces reach to twice the time at the rate that three quarters
/// reach.
WriteTime estimate_write(const std::string& run_dir, double bytes);

}  // namespace hexad::plan
