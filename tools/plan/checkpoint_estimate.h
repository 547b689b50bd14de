// Estimates of a checkpoint's size and write time, before the checkpoint is written.
#pragma once

#include <string>

#include "tools/train/recipe/recipe.h"

namespace hexad::plan {

/// Returns the bytes of the weights and optimizer states in a checkpoint, summed over all ranks.
double checkpoint_bytes(const train::Recipe& recipe, const train::Extensions& extensions);

/// Duration of a write as a range, with the source of the estimate.
struct WriteTime {
  double least = 0, most = 0;  // seconds; 0 if unknown
  double ample = 0;            // seconds that should suffice for a save; 0 if unknown
  std::string source;          // such as "like the last saves of runs/a"; the reason if the time is unknown

  /// Returns "about 1.2 s", or "about 1.2 s to 8.0 s"; empty if the time is unknown.
  std::string text() const;
};

struct Range {
  double least = 0, most = 0;
};

/// Measured speed of a disk.
struct DiskSpeed {
  Range sync_seconds;      // seconds to write one byte and flush it to the disk
  Range seconds_per_byte;  // seconds to write and flush 4 MiB, divided by the number of bytes
};

/// Returns the time of a save of `bytes` bytes into `folder` at the measured speed. `source` lists the measured rates
/// and times. `ample` is twice `most`, because the load on the disk varies.
WriteTime write_time(const DiskSpeed& speed, double bytes, const std::string& folder);

/// Estimates the time of a write of `bytes` bytes from the fastest and the slowest of the last five saves in `run_dir`.
/// Measures the disk if `run_dir` has no saves. The measurement writes 3 to 24 pieces of 4 MiB to a temporary file in
/// `run_dir` or in its nearest existing parent. It stops once three pieces are written and 0.8 s have passed. The
/// result is then write_time() for the first and the third quartile of the measured speeds.
WriteTime estimate_write(const std::string& run_dir, double bytes);

}  // namespace hexad::plan
