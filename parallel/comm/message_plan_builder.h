// Common parts of the message plans of small and large groups: rounds of messages.
#pragma once

#include <functional>
#include <vector>

#include "parallel/comm/message_plan.h"

namespace hexad::comm {

/// Builds the message plan of one operation. The planners of small groups (message_plan.cpp) and of large groups
/// (large_group_plan.cpp) are derived classes.
class MessagePlanBuilder {
 public:
  MessagePlanBuilder(const Operation& op, int rank, int size, int64_t round_bytes);

 protected:
  /// True if the group is so large that a rank should not send small tensors to every other rank.
  bool large() const;
  static bool is_small(const Tensor& t);
  /// True if this plan must copy the message that the rank sends to itself. For device tensors, CardMessageGroup has
  /// already copied this message (card_messages.h).
  bool copies_own() const { return op_.out.device().on_host(); }

  /// Adds a round without its empty transfers. The peer computes the same sizes, and also omits the empty transfers.
  /// Returns the round's index.
  int add(Round round);
  /// Adds a round that starts once all earlier rounds have finished.
  void follow(Round round);
  /// Exchanges the transfers in pieces of at most `piece` bytes. Element k of both lists belongs to step k. A round
  /// contains pieces that begin at the same offset of their transfers, for several consecutive steps: as many steps as
  /// fit into a round, and at least BlockSizes::direct_ranks. Both ranks of a transfer list it in the same step, so
  /// they divide it in the same way. No round starts before rounds 0 to `after` have finished.
  void exchange(const std::vector<Transfer>& sends, const std::vector<Transfer>& receives, int64_t piece,
                int after = -1);
  /// Exchanges the transfers in pieces once all earlier rounds have finished.
  void follow(const std::vector<Transfer>& sends, const std::vector<Transfer>& receives);

  /// Allocates memory that the message plan owns.
  Tensor scratch_tensor(int64_t bytes);
  /// Returns a function that reduces `sources` to `out`, in the order of the list.
  std::function<void()> reduction(std::byte* out, std::vector<const void*> sources, int64_t count) const;
  /// Returns the message plan. It has at least one round.
  MessagePlan finished();

  const Operation& op_;
  const int rank_, size_;
  const int64_t piece_;                     // maximum bytes of a message in a round with a message to every rank
  const int64_t max_single_message_bytes_;  // maximum bytes of a message in a round with one message or a few
  MessagePlan plan_;
};

}  // namespace hexad::comm
