// What a checkpoint costs, before there is one.
#pragma once

#include <string>

#include "tools/train/recipe.h"

namespace hexad::plan {

/// Bytes of the weights and optimizer states that a checkpoint holds, all ranks together.
double checkpoint_bytes(const train::Recipe& recipe, const train::Extensions& extensions);

/// How long writing takes, at the fastest and at the slowest, and how that is known.
struct WriteTime {
  double least = 0, most = 0;  // seconds; 0 where it is not known
  std::string source;          // "as the last saves of runs/a"; where it is not known, why

  /// "about 1.2 s", or "about 1.2 s to 8.0 s"; empty where it is not known.
  std::string text() const;
};

/// Writing `bytes` as fast and as slowly as the last saves in `run_dir`, where there are any. Else at the rates of some
/// pieces of a file, written there or in the nearest folder above it that exists, by this process alone, in about a
/// second; the file is gone afterwards. What else a disk has to do changes from one moment to the next, so the range
/// then goes from half the time at the rate that a quarter of the pieces reach to twice that at the one that three
/// quarters of them reach.
WriteTime estimate_write(const std::string& run_dir, double bytes);

}  // namespace hexad::plan
