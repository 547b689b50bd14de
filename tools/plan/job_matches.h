// Collectives and messages of a simulated step. The jobs of one collective or message end together on all its ranks.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "tools/plan/rank_jobs.h"

namespace hexad::plan {

/// Matches the communication of simulated ranks. Sets Job::collective to the same number for all jobs of one
/// collective, or of one message between two simulated ranks. Such jobs end together.
class JobMatches {
 public:
  /// Makes an object that sets members of `jobs`, the jobs of all simulated ranks. `jobs` must outlive the object.
  explicit JobMatches(std::vector<schedule::Job>& jobs) : jobs_(jobs) {}

  /// Matches the operations of all ranks. Throws std::logic_error if members of a group issue different operations.
  /// Also throws std::logic_error if a rank does not send as many messages as its peer receives.
  void match(std::span<const RankJobs> ranks);

  /// Returns the total number of matched collectives and messages, which is above every number in Job::collective.
  int collectives() const { return collectives_; }

 private:
  // Member of a group: its rank, and the indices of the operations that the rank issues in the group.
  struct Member {
    const RankJobs* rank;
    std::vector<size_t> issues;
  };

  static void require_alike(const device::IssuedGroup& group, const Member& a, const Member& b);
  // Sets the ends of receives on a simulated rank from a peer that is not simulated. Receive k ends with the k-th
  // message that the simulated rank sends to the mirrored peer: the rank at the same distance in the opposite direction
  // within the group. The receive takes no time if the numbers of receives and of mirrored messages differ. It also
  // takes no time if the simulated rank waits for the receive before it sends the mirrored message.
  void receive_alone(const Member& received, const std::optional<Member>& sent);

  void join(const std::vector<Member>& members);

  std::vector<schedule::Job>& jobs_;
  int collectives_ = 0;
};

}  // namespace hexad::plan
