// State that the threads of a ThreadGroup share. The rank that arrives last at an operation executes it for all ranks.
#pragma once

#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "parallel/comm/operation.h"
#include "parallel/comm/traffic.h"

namespace hexad::comm {

/// State that the ranks of a group share. Thread-safe. Its functions do not block.
class Rendezvous {
 public:
  /// Makes the state of a group in which rank i is rank world_ranks[i] of the world.
  Rendezvous(std::string name, std::vector<int> world_ranks)
      : name_(std::move(name)),
        world_ranks_(std::move(world_ranks)),
        next_(world_ranks_.size()),
        gone_(world_ranks_.size()),
        splits_(world_ranks_.size()) {}
  int size() const { return static_cast<int>(world_ranks_.size()); }
  const std::vector<int>& world_ranks() const { return world_ranks_; }

  /// Identifier of an operation of the group. It is the same on all ranks, because they take tickets in the same order.
  struct Ticket {
    int from = -1, to = -1;  // sender and receiver of a message; -1 for a collective
    int64_t number = 0;
    auto operator<=>(const Ticket&) const = default;
  };
  Ticket take(int rank, const Operation& op);
  /// Declares that rank `rank` is ready for the operation. `flight` completes when the operation is done or has failed.
  void arrive(const Ticket& ticket, int rank, Operation op, std::shared_ptr<Flight> flight);

  /// Makes pending and later operations fail with `reason`, also in the groups that are split from this group.
  void abort(std::exception_ptr reason);
  /// Declares that rank `rank` has ended. Operations that still need this rank fail.
  void leave(int rank);

  /// An operation that only some ranks have reached: the world ranks that have arrived, the missing world ranks, a
  /// description, and the number of look() calls since the first arrival.
  struct Wait {
    std::vector<int> here, missing;
    std::string text;
    int looks = 0;
  };
  /// Returns the operations of this group and its subgroups that only some ranks have reached. Called periodically.
  std::vector<Wait> look();

  /// Returns the rendezvous of a group that is split from this group. `members` are the ranks of this group that form
  /// the new group. Rank `rank` calls this function once for each split. The first of these calls makes the rendezvous.
  std::shared_ptr<Rendezvous> child(int rank, const std::string& name, const std::vector<int>& members);

 private:
  struct Participant {
    Operation op;
    std::shared_ptr<Flight> flight;
    /// Ends the operation: first frees the tensors that only the operation owns, then lets the waiting threads resume.
    void end(int64_t bytes, std::exception_ptr error);
  };
  struct Pending {
    std::map<int, Participant> participants;  // keyed by rank
    int looks = 0;                            // number of look() calls since the first rank arrived
  };
  struct Child {
    std::weak_ptr<Rendezvous> rendezvous;
    std::vector<int> members;
  };
  std::exception_ptr missing(const Ticket& ticket, const Pending& pending) const;

  Wait wait_of(const Ticket& ticket, const Pending& pending) const;

  const std::string name_;
  const std::vector<int> world_ranks_;
  std::mutex mutex_;
  std::vector<std::map<std::pair<int, int>, int64_t>> next_;  // next ticket number of each rank, keyed by (from, to)
  std::vector<bool> gone_;
  std::vector<int64_t> splits_;  // number of splits in which each rank has taken part
  std::map<Ticket, Pending> pending_;
  std::exception_ptr aborted_;
  std::map<std::pair<int64_t, int>, Child> children_;  // keyed by the number of the split and the first member
};

/// Describes a wait that has lasted more than `limit` calls of look(), and names the ranks to blame for it. Returns an
/// empty text if there is no such wait.
std::string overdue(const std::vector<Rendezvous::Wait>& waits, int limit);

}  // namespace hexad::comm
