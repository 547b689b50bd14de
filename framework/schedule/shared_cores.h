// Cores that the ranks of a node share.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/schedule/queues.h"

namespace hexad::schedule {

/// Ranks of a node that worked at the same time while the rates were measured.
enum class MeasuredBy : uint8_t { all_ranks, one_rank };
constexpr auto enum_names(MeasuredBy) {
  return std::to_array<std::pair<MeasuredBy, std::string_view>>(
      {{MeasuredBy::all_ranks, "all_ranks"}, {MeasuredBy::one_rank, "one_rank"}});
}

/// Cores of a node, and the conditions under which the rates were measured. All ranks of a node get the same fraction
/// of the cores that they need if the node has too few cores.
struct SharedCores {
  double cores = 1;        // cores that the ranks of a node may use together
  int ranks = 1;           // number of ranks on a node in the simulated job
  int measured_ranks = 1;  // number of ranks on a node while the rates were measured
  int threads = 1;         // number of threads of a rank's kernels
  double waiting = 0;      // cores that a rank needs while it neither computes nor copies, from 0 to 1
  MeasuredBy by = MeasuredBy::all_ranks;

  /// True if a node may have too few cores for its ranks, in the simulated job or during the measurement. `needed` is
  /// the maximum number of cores that a rank needs.
  bool shared(double needed) const;
  /// Returns the speed of a rank relative to its speed during the measurement. The rank needs `own` cores. The ranks of
  /// its node need `mean` cores on average.
  double speed(double own, double mean) const;
  /// Throws base::Error(usage) if a member is out of range.
  void check() const;

 private:
  int measured_together() const { return by == MeasuredBy::all_ranks ? measured_ranks : 1; }
};

/// Number of cores that a set of queues, which simulates one rank, needs.
struct CoreNeeds {
  std::function<double(size_t active)> cores;  // cores that a rank with these active queues needs
  double most;                                 // largest result of `cores` that occurs
  std::function<bool(int queue)> local;  // true for a queue of computations or copies, whose speed depends on cores
};

/// Returns the sharing of cores for run_jobs(); none if `cores` is empty or SharedCores::shared() is false. `nodes` has
/// the node of each set, or CoreSharing::no_node. A rank without a set is assumed to need the average number of cores
/// of the ranks with sets on its node.
std::optional<CoreSharing> sharing_of(const std::optional<SharedCores>& cores, std::vector<int> nodes, CoreNeeds needs);

}  // namespace hexad::schedule
