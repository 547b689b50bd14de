// The estimates of a step for people.
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
  /// Finds what memory makes of a memory_reuse that is left open. `extensions` outlive it.
  MemoryReport(const train::Recipe& recipe, const train::Extensions& extensions, int64_t world);

  /// Estimates for evenly loaded experts: for each stage, the rank that needs the most memory; and the traffic of the
  /// rank that sends the most.
  struct Estimates {
    std::vector<MemoryEstimate> stages;
    TrafficEstimate traffic;
    size_t neediest() const;  // stage
  };
  Estimates estimates() const;

  /// Memory of the rank that needs the most, by purpose, with experts loaded evenly, at p99 and at worst. Then a line a
  /// stage; of many stages the first ones, the last one and the one that needs the most. Then what the rank that sends
  /// the most sends in a step, by class of traffic.
  std::string table() const;

  /// Why the recipe does not keep within memory.limit_bytes: how much is missing, on which stage, and what of the
  /// recipe would help; empty where it does, or has no limit.
  std::string problem() const;

 private:
  double needed_by(const train::Recipe& changed) const;

  const train::Recipe recipe_;
  const train::Extensions& extensions_;
  const int64_t world_;
  train::Recipe planned_;               // with nothing of memory_reuse left open
  std::optional<WithinMemory> within_;  // of a memory_reuse that is
};

/// "weights 1.20 GiB (1.10 GiB), ...": what the neediest rank is estimated to need of each, and in brackets what was
/// `measured`, by category of the allocator, with "total": the most at the same time.
std::string memory_comparison(const train::Recipe& recipe, const train::Extensions& extensions, int64_t world,
                              const std::map<std::string, int64_t>& measured);

}  // namespace hexad::plan
