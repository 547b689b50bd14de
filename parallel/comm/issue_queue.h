// Chooses the next round to start. These are the priorities of the communication engine, without any communication.
#pragma once

#include <compare>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "parallel/comm/message_plan.h"
#include "parallel/comm/traffic.h"

namespace hexad::comm {

using base::cat;

/// Limits of the data in flight.
struct Limits {
  /// Bytes that a rank sends in one round of an operation, to all peers together: the granularity of priorities. The
  /// same on all ranks.
  int64_t round_bytes = 128 << 10;
  /// Maximum number of bytes in flight, per link and direction, of the classes with the highest priority in use on that
  /// link. The first round of each communicator may exceed it. Large enough to keep the link busy until the engine's
  /// next poll.
  int64_t window_bytes = 2 << 20;
  /// Maximum number of bytes in flight, per direction, of each class that gives way to another class of this rank on
  /// the link. A higher class has to wait for these bytes, because they are already in the buffers of sockets and
  /// switches.
  int64_t low_window_bytes = 256 << 10;
};

/// Kind of link that an operation uses.
enum class Link : uint8_t { node, network };

/// Key of a queue: a communicator's collectives, or its messages to or from one peer. The operations of one channel
/// start in the same order on all ranks.
struct Channel {
  enum class Kind : uint8_t { collective, send, receive };
  int communicator = 0;
  Kind kind = Kind::collective;
  int peer = -1;
  Urgency urgency = Urgency::ordinary;  // urgency of the communicator
  auto operator<=>(const Channel&) const = default;
};

/// An operation given to the engine. Once posted, only the engine's thread accesses it, except for `flight`.
struct Request {
  Channel channel;
  TrafficClass traffic;
  std::string group;                                // the group's name
  std::shared_ptr<const std::vector<int>> members;  // world ranks of the group
  Operation operation;                              // holds the tensors
  int rank = 0;                                     // this rank's number in the group
  Link link = Link::network;
  int64_t round_bytes = Limits{}.round_bytes;
  bool checked = false;  // true if it first compares signatures with the peers
  std::shared_ptr<Flight> flight;

  int64_t number = 0;    // number on its channel, in the order of the calls
  int64_t arrival = 0;   // number among all requests
  bool ready = false;    // true once the work before it on its stream is done
  bool boosted = false;  // true once a thread waits for it or for a later request of its channel
  bool awaited = false;  // true while a thread of the rank is blocked until it is done
  bool urgent = false;   // true if the rank's own thread waits, so that its core has no other work
  MessagePlan plan;      // made when the first round may start
  bool planned = false;
  size_t started = 0;          // rounds started
  size_t finished_prefix = 0;  // rounds finished without a gap
  std::vector<bool> finished;
  size_t ended = 0;          // rounds finished
  std::vector<int> unheard;  // peers that have not yet shown that they take part
  int64_t sent_bytes = 0;

  /// True if all its ranks have called the operation. It then ends without further work of their programs. Stays false
  /// if some ranks send each other nothing, because nothing shows that these ranks take part.
  bool matched() const { return planned && unheard.empty(); }
  bool done() const { return planned && finished_prefix == plan.rounds.size(); }
  std::string what() const { return cat("[", group, "] ", operation.to_string()); }  // for messages
};
using RequestPtr = std::shared_ptr<Request>;

/// Queues of requests by channel. The priority decides which operation gets the windows. A channel waits while a
/// channel of higher priority moves on the same link.
///
/// This cannot deadlock. Operations of a channel start in order. The first unfinished round of every channel may start,
/// with one exception: an operation of higher priority is in flight, and all its ranks have called it. Such an
/// operation needs only links to end, not the work of any program. Priorities are the same on all ranks, so nothing
/// delays the operation of highest priority. After it ends, the same holds for the next one.
class IssueQueue {
 public:
  explicit IssueQueue(const Limits& limits, MakeMessagePlan make_message_plan = comm::make_message_plan)
      : limits_(limits), make_message_plan_(make_message_plan) {}

  void limit(const Limits& limits) { limits_ = limits; }
  void prioritize(const Priorities& priorities) { priorities_ = priorities; }

  void post(RequestPtr request);
  /// Marks the work before `request` on its stream as done.
  void make_ready(const RequestPtr& request);
  /// Raises all requests of the channel up to `request` above all classes. A wait for `request` is also a wait for the
  /// requests before it.
  void boost(const Request& request);
  void boost_all();

  struct Start {
    RequestPtr request;  // null: no round may start now
    size_t round = 0;
  };
  /// Returns the round to start now. The round counts as in flight until finish().
  Start next();
  /// Ends a round and runs its `finish`. If the request is done() then, the queue drops it.
  void finish(const RequestPtr& request, size_t round);

  /// Returns an operation whose channel has finished nothing in the last `limit` calls, or null. Only operations that
  /// are ready or waited for count. Called at regular intervals. The limit is in calls, not seconds, so that a process
  /// that was stopped for a while does not accuse its peers.
  RequestPtr overdue(int limit);

  /// Returns the first operation of each channel in which a thread waits for that operation or a later one. Also
  /// returns the number of calls of overdue() since the channel last finished something.
  std::vector<std::pair<RequestPtr, int>> waited_for() const;
  /// Resets the overdue counters: from now on, each channel counts as quiet for at most `quiet` calls of overdue().
  void forgive(int quiet);

  bool empty() const { return queues_.empty(); }
  /// Removes and returns all requests, after a failure.
  std::vector<RequestPtr> drain();

 private:
  struct Queue {
    std::deque<RequestPtr> requests;
    int rounds_in_flight = 0;
    Volume in_flight;
    int quiet = 0;  // calls of overdue() since this channel last finished a round
  };
  // The smaller value has precedence: first by class, then by urgency.
  using Priority = std::pair<int, Urgency>;
  struct Candidate {
    std::tuple<Priority, int64_t> order;
    bool low;
    Queue* queue;
    Start start;
  };
  Priority priority_of(TrafficClass traffic, Urgency urgency) const;
  Priority priority_of(const Request& r) const { return priority_of(r.traffic, r.channel.urgency); }
  bool boosted(const Queue& queue) const { return queue.requests.front()->boosted && priorities_.by_need; }
  // True if the peers have begun the queue's first operation, too.
  static bool answered(const Queue& queue) { return queue.requests.front()->ended > 0; }
  // True if this rank uses a higher priority on the queue's link.
  bool low(const Queue& queue) const;
  // True if traffic of a higher priority currently moves on the queue's link.
  bool withheld(const Queue& queue) const;
  // Returns the next round of a queue if the order of its operations allows it to start.
  Start startable(Queue& queue) const;
  const Candidate* choose(const std::vector<Candidate>& sorted) const;
  // Returns the bytes by which the candidate, if started, would exceed the window of its priority on its link. At most
  // 0 if there is room.
  Volume excess(const Candidate& c) const;

  Limits limits_;
  const MakeMessagePlan make_message_plan_;
  Priorities priorities_;
  int64_t arrivals_ = 0;
  std::set<std::tuple<Link, TrafficClass, Urgency>> used_;  // without control traffic
  std::map<Channel, Queue> queues_;
  std::map<Channel, int64_t> posted_;
};

}  // namespace hexad::comm
