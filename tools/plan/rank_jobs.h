// Jobs of one rank in a simulated step, and the queues in which they run.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "framework/schedule/queues.h"
#include "tools/plan/step_simulation.h"

namespace hexad::plan {

/// Kind of link that connects two ranks: inside a domain of the fast link (usually a node), or between domains.
enum class Network : uint8_t { intra, inter };

/// True for messages between two ranks, which are not collectives.
inline bool is_message(const device::Issue& issue) { return issue.name == "send" || issue.name == "receive"; }

/// True if the queue with this number is a lane.
inline bool is_lane(int queue) { return queue < device::lane_count; }

/// Assigns numbers to the queues of a rank, identically on all ranks: first to its lanes, then to the queues of
/// communication. On each network, a class of traffic has one queue for collectives and one for each direction of
/// messages. A class of traffic also has queues for the messages to and from each simulated peer. Messages of different
/// peers can overtake each other.
class Queues {
 public:
  struct Key {
    int traffic;  // class of traffic
    Network network;
    int lane;  // 0: collectives; above 0: messages, by peer and direction
    auto operator<=>(const Key&) const = default;
  };
  /// Returns the number of the queue with this key. Adds the queue if there is none. Throws std::logic_error if the new
  /// queue would have the number `most`.
  int number_of(const Key& key);
  /// Returns the key of a queue of communication.
  const Key& key(int queue) const { return keys_[queue - device::lane_count]; }

  static constexpr int most = 64;  // a 64-bit set stores the active queues of a rank

 private:
  std::vector<Key> keys_;  // element i: key of queue device::lane_count + i
};

/// Jobs of the operations in one rank's record.
class RankJobs {
 public:
  /// `nodes` has the node of each rank of the world. The arguments must outlive the object.
  RankJobs(const StepRecord& record, const std::vector<int>& nodes, const StepContention& contention);

  const StepRecord& record() const { return record_; }
  int job_of(size_t issue) const { return job_of_[issue]; }

  /// Appends the jobs, in queues starting at `first_queue`. The jobs have no times yet. `simulated` lists the ranks of
  /// all records.
  void add_to(std::vector<schedule::Job>& jobs, int first_queue, Queues& queues, const std::vector<int>& simulated);
  /// Sets the times of the appended jobs.
  void set_times(std::span<schedule::Job> jobs, const PriceOfIssue& price);

  /// Returns the start and end of each operation. The time of a job is divided among the job's operations in proportion
  /// to their prices.
  std::vector<schedule::Interval> times_of(std::span<const schedule::Job> jobs,
                                           std::span<const schedule::Interval> times) const;

 private:
  // Returns the job that operation `i` joins, if any: the job of the previous operation in its lane. Operation `i`
  // joins only if no other queue waits for the previous operation, and if `i` waits for no other queue.
  std::optional<int> job_to_join(size_t i);
  // True if the operation has two consecutive jobs: one for the time until the host has issued the operation, and one
  // for the operation itself. During the first job, the queue of the operation runs earlier operations.
  bool waits_for_host(const device::Issue& issue) const;
  Network network_between(int rank, int other) const;
  int queue_of(const device::Issue& issue, Queues& queues, const std::vector<int>& simulated);
  Network network_of(int group);
  // Returns the number of a simulated rank with which this rank exchanges messages. Assigns a new number to a new peer.
  int number_of_peer(int peer);

  const StepRecord& record_;
  const std::vector<int>& nodes_;
  const StepContention& contention_;
  std::vector<std::optional<Network>> networks_;  // network of each group; none: not computed yet
  std::vector<int> peers_;
  std::vector<char> awaited_;  // for each issue: true if communication or another lane waits for the issue
  std::vector<int> job_of_;
  int first_job_ = 0, last_job_ = 0;  // the object's jobs are [first_job_, last_job_)
  // Time of each operation: its price and, for a kernel or copy, the time for which it waits for the host.
  std::vector<double> seconds_;
  std::array<std::optional<size_t>, device::lane_count> last_{};  // latest operation of each lane
};

}  // namespace hexad::plan
