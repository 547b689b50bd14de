// Numbers of tensors that a pipeline rank holds at each of its actions. Used to compare the memory of ranks that run
// equal virtual stages.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "parallel/pp/checked_schedules.h"

namespace hexad::pp {

/// Numbers of the tensors that a rank holds in run() (pipeline_runner.h) when an action begins:
/// - micro-batches whose tensors are saved, by local stage: for backward, and for delayed weight gradients
/// - posted receives, and inputs that have arrived
/// - sent tensors that may not be freed yet
class HeldTensors {
 public:
  /// Counts the tensors of rank `rank`. Throws std::logic_error if merged pairs run as one action.
  HeldTensors(const CheckedSchedule& program, int rank);

  /// True if, for each action of `other`, this rank has a similar action at which it holds at least as many tensors of
  /// each sort. This rank then needs at least as much memory as the rank of `other` under three conditions:
  ///   - Each virtual stage has the same layers on both ranks.
  ///   - All passes of micro-batches are equal.
  ///   - Passes leave no other tensors in memory.
  ///
  /// Similar actions have the same kind and local stage. Their micro-batches are both the first, both the last, or both
  /// in between. Their inputs come from the same sort of rank: no rank, the rank itself or another rank. Their results
  /// go to the same sort of rank, too.
  bool cover(const HeldTensors& other) const;

 private:
  enum class Micro : uint8_t { first, middle, last };
  enum class Peer : uint8_t { none, self, other };
  // Kind, local stage, micro-batch, and the peers of the input and the result.
  using Similar = std::tuple<Action::Kind, int, Micro, Peer, Peer>;
  using Counts = std::vector<int>;

  void add(const Similar& action, Counts counts);

  std::map<Similar, std::vector<Counts>> most_;  // excludes counts that other counts of the same list cover
};

}  // namespace hexad::pp
