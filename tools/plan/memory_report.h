// Estimates of a step's memory and traffic, as text for users.
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
  /// Makes a report. Finds the schedules that fit the memory limit if memory_reuse is open. `extensions` must outlive
  /// the report.
  MemoryReport(const train::Recipe& recipe, const train::Extensions& extensions, int64_t world);

  /// Estimates for RoutingLoad::even. For each stage, `stages` has the memory of the stage's rank that needs the most.
  /// `traffic` is the traffic of the rank that sends the most in the job.
  struct Estimates {
    std::vector<MemoryEstimate> stages;
    TrafficEstimate traffic;
    size_t neediest() const;  // index of the stage that needs the most memory
  };
  Estimates estimates() const;

  /// Returns a table of three parts:
  /// - the memory of the rank that needs the most memory, by purpose, under RoutingLoad::even. Two kinds of lines may
  ///   follow: the total if no other rank is ever late (omitted if it is less than 1% smaller), and the totals under
  ///   p99 and in the worst case (omitted if they cannot be larger)
  /// - one line for each stage if there are several stages; with many stages, only the first stages, the last stage,
  ///   and the stage that needs the most memory
  /// - the traffic of the rank that sends the most in a step, by class
  std::string table() const;

  /// Returns the reason why the recipe exceeds memory.limit_bytes: the missing bytes, the stage, and changes of the
  /// recipe that would help. Empty if the recipe fits, or has no limit.
  std::string problem() const;

 private:
  double needed_by(const train::Recipe& changed) const;

  const train::Recipe recipe_;
  const train::Extensions& extensions_;
  const int64_t world_;
  train::Recipe planned_;               // the recipe, with values for all open choices if memory_reuse is open
  std::optional<WithinMemory> within_;  // schedules that fit; set if a model with experts has open memory_reuse
};

/// Returns "weights 1.20 GiB (1.10 GiB), ...": for each category, the largest estimate of any stage, and in brackets
/// the measured bytes. Omits categories without bytes. `measured` has the measured bytes by the allocator's category.
/// The entry "total" is the peak of the sum of all categories.
std::string memory_comparison(const train::Recipe& recipe, const train::Extensions& extensions, int64_t world,
                              const std::map<std::string, int64_t>& measured);

}  // namespace hexad::plan
