// Named ranges, shown by profilers.
#pragma once

#include <string>

namespace hexad::device {

/// Names the work that this thread issues to a device while the range lives, for profiles (NVTX, in programs built with
/// CUDA). Ranges of one thread nest. Costs next to nothing while no profiler looks.
class NamedRange {
 public:
  explicit NamedRange(const std::string& name);
  ~NamedRange();
  NamedRange(const NamedRange&) = delete;
  NamedRange& operator=(const NamedRange&) = delete;
};

}  // namespace hexad::device
