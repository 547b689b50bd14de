// Named ranges that profilers show.
#pragma once

#include <string>

namespace hexad::device {

/// Labels the work of this thread, and the device work that the thread issues, during the lifetime of the range.
/// Profilers show the label (NVTX; only in programs built with CUDA). Ranges of one thread may be nested. A range costs
/// almost nothing if no profiler is attached.
class NamedRange {
 public:
  explicit NamedRange(const std::string& name);
  ~NamedRange();
  NamedRange(const NamedRange&) = delete;
  NamedRange& operator=(const NamedRange&) = delete;
};

}  // namespace hexad::device
