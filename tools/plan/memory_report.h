// Estimates of a step as readable text.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/plan/memory_estimate.h"
#include "tools/plan/traffic_estimate.h"
#include "tools/plan/within_memory.h"

namespace hexad::plan {

class MemoryReport {
 public:
  /// Makes a report. If memory_reuse is open, finds its values that fit the memory limit. `extensions` outlive the
  /// report.
  MemoryReport(const train::Recipe& recipe, const train::Extensions& extensions, int64_t world);

  /// Estimates for evenly loaded experts: for each stage, the rank that needs the most memory, and the traffic of the
  /// rank that sends the most.
  struct Estimates {
    std::vector<MemoryEstimate> stages;
    TrafficEstimate traffic;
    size_t neediest() const;  // index of the stage that needs the most memory
  };
  Estimates estimates() const;

  /// Returns a table. It begins with the memory, by purpose, of the rank that needs the most, with experts loaded
  /// evenly, at p99 and in the worst case. One line for each stage follows. If there are many stages, only the first
  /// ones, the last one and the neediest one are listed. The last lines are the traffic, by class, of the rank that
  /// sends the most in a step.
  std::string table() const;

  /// Returns the reason why the recipe exceeds memory.limit_bytes: the missing bytes, the stage, and changes of the
  /// recipe that would help. Empty if it fits, or has no limit.
  std::string problem() const;

 private:
  double needed_by(const train::Recipe& changed) const;

  const train::Recipe recipe_;
  const train::Extensions& extensions_;
  const int64_t world_;
  train::Recipe planned_;               // the recipe with a value for an open memory_reuse
  std::optional<WithinMemory> within_;  // schedules for an open memory_reuse
};

/// Returns "weights 1.20 GiB (1.10 GiB), ...": the estimate for the neediest rank, and in brackets the measured bytes.
/// `measured` has the measured bytes by the allocator's category, and the peak of their sum as "total".
std::string memory_comparison(const train::Recipe& recipe, const train::Extensions& extensions, int64_t world,
                              const std::map<std::string, int64_t>& measured);

}  // namespace hexad::plan
