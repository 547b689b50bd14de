// Meeting point of the threads of a ThreadGroup: the rank that arrives last does the operation for all.
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

/// Shared by the ranks of one group. Thread-safe. Nobody blocks in it: an operation is complete once all have arrived.
class Rendezvous {
 public:
  /// Rank i of the group is rank world_ranks[i] of the world.
  Rendezvous(std::string name, std::vector<int> world_ranks)
      : name_(std::move(name)),
        world_ranks_(std::move(world_ranks)),
        next_(world_ranks_.size()),
        gone_(world_ranks_.size()) {}
  int size() const { return static_cast<int>(world_ranks_.size()); }
  const std::vector<int>& world_ranks() const { return world_ranks_; }

  /// Names one operation of the group; the same on all its ranks, because they take tickets in the same order.
  struct Ticket {
    int from = -1, to = -1;  // of send and receive
    int64_t number = 0;
    auto operator<=>(const Ticket&) const = default;
  };
  Ticket take(int rank, const Operation& op);
  /// Rank `rank` is ready to take part; `flight` completes when the operation is done or has failed.
  void arrive(const Ticket& ticket, int rank, Operation op, std::shared_ptr<Flight> flight);

  /// Fails pending and later operations with `reason`, also in the groups split from this one.
  void abort(std::exception_ptr reason);
  /// Rank `rank` will not come any more: operations that need it fail.
  void leave(int rank);

  /// An operation that some ranks have come to and others not, as world ranks, and for how many looks it waits.
  struct Wait {
    std::vector<int> here, missing;
    std::string text;
    int looks = 0;
  };
  /// Called periodically. Returns the pending operations of this group and its subgroups.
  std::vector<Wait> look();

  /// The rendezvous of a group split from this one, which `members` (ranks of this one) share; made by the first to
  /// ask.
  std::shared_ptr<Rendezvous> child(int64_t split, const std::string& name, const std::vector<int>& members);

 private:
  struct Participant {
    Operation op;
    std::shared_ptr<Flight> flight;
  };
  struct Pending {
    std::map<int, Participant> participants;  // by rank
    int looks = 0;                            // calls of look() since the first one came
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
  std::vector<std::map<std::pair<int, int>, int64_t>> next_;  // per rank: the next number by (from, to)
  std::vector<bool> gone_;
  std::map<Ticket, Pending> pending_;
  std::exception_ptr aborted_;
  std::map<std::pair<int64_t, int>, Child> children_;  // by split and first member
};

/// Names a wait of more than `limit` looks and the ranks to blame for it; empty when there is none.
std::string overdue(const std::vector<Rendezvous::Wait>& waits, int limit);

}  // namespace hexad::comm
