// Rounds of messages, from which the plans of operations are built.
#pragma once

#include <functional>
#include <vector>

#include "parallel/comm/message_plan.h"

namespace hexad::comm {

/// Builds the plan of one operation. Plans of small groups (message_plan.cpp) and of large groups
/// (large_group_plan.cpp) derive from it.
class PlanBuilder {
 public:
  PlanBuilder(const Operation& op, int rank, int size, int64_t round_bytes);

 protected:
  /// True if the group is so large that a rank should not send small tensors to every other rank.
  bool large() const;
  static bool is_small(const Tensor& t);
  /// True if this plan must copy the message that the rank sends to itself. For device tensors, CardMessageGroup has
  /// already copied it (card_messages.h).
  bool copies_own() const { return op_.out.device().on_host(); }

  /// Adds a round without its empty transfers, because the peer knows the sizes and omits them too. Returns its index.
  int add(Round round);
  /// Adds a round that starts once all earlier rounds have finished.
  void follow(Round round);
  /// Exchanges the transfers in pieces of at most `piece` bytes. A round contains the same piece of some transfers:
  /// those of as many steps as fit into a round, and of at least direct_ranks steps. Element k of both lists is of the
  /// same step, so the two ranks of a transfer divide it into the same rounds. The rounds start once rounds 0 to
  /// `after` have finished.
  void exchange(const std::vector<Transfer>& sends, const std::vector<Transfer>& receives, int64_t piece,
                int after = -1);
  /// Exchanges the transfers in pieces once all earlier rounds have finished.
  void follow(const std::vector<Transfer>& sends, const std::vector<Transfer>& receives);

  /// Allocates memory that the plan owns.
  Tensor scratch_tensor(int64_t bytes);
  /// Returns a function that reduces `sources` to `out` in their order.
  std::function<void()> reduction(std::byte* out, std::vector<const void*> sources, int64_t count) const;
  /// Returns the plan. It has at least one round.
  MessagePlan finished();

  const Operation& op_;
  const int rank_, size_;
  const int64_t piece_;       // maximum bytes of a message, if a round has a message to every rank
  const int64_t lone_piece_;  // maximum bytes of a message, if a round has only one message
  MessagePlan plan_;
};

}  // namespace hexad::comm
