// Collectives and messages of a simulated step, whose jobs end together on several ranks.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "tools/plan/rank_jobs.h"

namespace hexad::plan {

/// Gives jobs that end together the number of their collective.
class JobMatches {
 public:
  /// Refers to the jobs of all ranks.
  explicit JobMatches(std::vector<schedule::Job>& jobs) : jobs_(jobs) {}

  /// Matches the operations of all ranks. Throws std::logic_error if members of a group issue different operations.
  void match(std::span<const RankJobs> ranks);

  /// Returns the number of collectives, and of messages between two of the ranks.
  int collectives() const { return collectives_; }

 private:
  // Member of a group: its rank, and the indices of the operations that the rank issues in the group.
  struct Member {
    const RankJobs* rank;
    std::vector<size_t> issues;
  };

  static void require_alike(const device::IssuedGroup& group, const Member& a, const Member& b);
  // Sets the ends of receives on a simulated rank from a peer that is not simulated. Receive k ends with the k-th
  // message that the simulated rank sends in the mirrored direction. The receive takes no time if the numbers of
  // receives and of such messages differ, or if the simulated rank waits for the receive before it sends that message.
  void receive_alone(const Member& received, const std::optional<Member>& sent);

  void join(const std::vector<Member>& members);

  std::vector<schedule::Job>& jobs_;
  int collectives_ = 0;
};

}  // namespace hexad::plan
