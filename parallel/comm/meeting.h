// Where the threads of a ThreadGroup meet: the rank that arrives last does the operation for all.
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
class Meeting {
 public:
  Meeting(std::string name, int size) : name_(std::move(name)), next_(static_cast<size_t>(size)), gone_(next_.size()) {}
  int size() const { return static_cast<int>(next_.size()); }

  /// Names one operation of the group; the same on all its ranks, because they take tickets in the same order.
  struct Ticket {
    int from = -1, to = -1;  // of send and receive
    int64_t number = 0;
    auto operator<=>(const Ticket&) const = default;
  };
  Ticket take(int rank, const Operation& op);
  /// Rank `rank` is ready to take part; `flight` completes when the operation is done or has failed.
  void arrive(const Ticket& ticket, int rank, Operation op, std::shared_ptr<Flight> flight);

  /// What waits, and whatever comes later, fails with `reason`; also in the groups split from this one.
  void abort(std::exception_ptr reason);
  /// Rank `rank` will not come any more: operations that need it fail.
  void leave(int rank);

  /// The meeting of a group split from this one, which `members` (ranks of this one) share; made by the first to ask.
  std::shared_ptr<Meeting> child(int64_t split, const std::string& name, const std::vector<int>& members);

 private:
  struct Guest {
    Operation op;
    std::shared_ptr<Flight> flight;
  };
  using Party = std::map<int, Guest>;  // by rank
  struct Child {
    std::weak_ptr<Meeting> meeting;
    std::vector<int> members;
  };
  std::exception_ptr missing(const Ticket& ticket, const Party& party) const;

  const std::string name_;
  std::mutex mutex_;
  std::vector<std::map<std::pair<int, int>, int64_t>> next_;  // per rank: the next number by (from, to)
  std::vector<bool> gone_;
  std::map<Ticket, Party> parties_;
  std::exception_ptr aborted_;
  std::map<std::pair<int64_t, int>, Child> children_;  // by split and first member
};

}  // namespace hexad::comm
