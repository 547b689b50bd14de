// Choice of the round that the communication engine starts next, according to priorities. Only chooses; the engine
// communicates.
#pragma once

#include <compare>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include "parallel/comm/message_plan.h"
#include "parallel/comm/traffic.h"

namespace hexad::comm {

using base::cat;

/// Limits of the amount of data in flight.
struct Limits {
  /// Approximate number of bytes that a rank sends in one round of an operation, to all peers together. Priorities take
  /// effect only between rounds. The value must be the same on all ranks.
  int64_t round_bytes = 128 << 10;
  /// Maximum bytes in flight, per link and direction. This limit applies to boosted channels, and to the classes of the
  /// highest priority that this rank uses on the link. A channel without a round in flight may start a round even if
  /// this round exceeds the limit. The limit must be large enough to keep the link busy until the engine's next poll.
  int64_t window_bytes = 2 << 20;
  /// Maximum bytes in flight, per link and direction, for each class of lower priority. Bytes of classes between this
  /// class and the highest priority count too. Traffic of higher priority must wait for these bytes, because they are
  /// already in the buffers of sockets and switches.
  int64_t low_window_bytes = 256 << 10;
};

/// Kind of link that an operation uses.
enum class Link : uint8_t { node, network };

/// Key of a queue of requests. The queue contains all collectives of a communicator, all its messages to one peer, or
/// all its messages from one peer. The operations of a channel start in the same order on all ranks.
struct Channel {
  enum class Kind : uint8_t { collective, send, receive };
  int communicator = 0;
  Kind kind = Kind::collective;
  int peer = -1;
  Urgency urgency = Urgency::ordinary;  // urgency of the communicator
  auto operator<=>(const Channel&) const = default;
};

/// An operation that was passed to the engine. Only the engine's thread accesses the members of a posted request,
/// except `flight`.
struct Request {
  Channel channel;
  TrafficClass traffic;
  std::string group;                                // name of the group
  std::shared_ptr<const std::vector<int>> members;  // world ranks of the group
  Operation operation;                              // owns the tensors
  int rank = 0;                                     // rank of this process in the group
  Link link = Link::network;
  int64_t round_bytes = Limits{}.round_bytes;
  bool checked = false;  // true if the operation first compares signatures with the peers
  std::shared_ptr<Flight> flight;

  int64_t number = 0;    // index of the operation in its channel, in the order of the calls
  int64_t arrival = 0;   // index of the request among all requests of this rank
  bool ready = false;    // true once its stream has done the work that precedes the operation
  bool boosted = false;  // true once a thread waits for this or a later request of its channel; see also boost_all()
  bool awaited = false;  // true once a thread of the rank waits for the operation
  bool urgent = false;   // true once the rank's own thread waits for the operation, so that this thread's core is idle
  MessagePlan plan;      // messages of the operation, planned before the first round starts
  bool planned = false;  // true once the message plan is made
  size_t started = 0;    // number of rounds started
  size_t finished_prefix = 0;  // number of rounds before the first unfinished round
  std::vector<bool> finished;
  size_t ended = 0;               // number of finished rounds
  std::unordered_set<int> heard;  // peers that are known to have begun the operation
  int64_t sent_bytes = 0;

  /// True if all ranks are known to have called the operation. The operation then completes without further work of the
  /// ranks' programs. Always false if this rank exchanges no messages with some ranks, because this rank cannot detect
  /// the calls of those ranks.
  bool matched() const { return planned && heard.size() == others(); }
  /// Returns the number of ranks that take part in the operation besides this one.
  size_t others() const { return operation.is_point_to_point() ? 1 : members->size() - 1; }
  bool done() const { return planned && finished_prefix == plan.rounds.size(); }
  std::string what() const { return cat("[", group, "] ", operation.to_string()); }  // description for messages
};
using RequestPtr = std::shared_ptr<Request>;

/// Queues of requests, one per channel. Priorities decide which operation may send data within the limits. A channel
/// that is not boosted (boost()) waits while a matched operation of higher priority is in flight on the same link. An
/// operation is matched once all its ranks are known to have called it (Request::matched()).
///
/// Deadlocks are impossible. The operations of a channel start in order. The first unfinished round of every channel
/// may start if no matched operation of higher priority is in flight. A matched operation completes without further
/// work of any program. Priorities are the same on all ranks, so nothing delays the operation of highest priority. Once
/// this operation has completed, the same argument applies to the next priority.
class IssueQueue {
 public:
  explicit IssueQueue(const Limits& limits, MakeMessagePlan make_message_plan = comm::make_message_plan)
      : limits_(limits), make_message_plan_(make_message_plan) {}

  void limit(const Limits& limits) { limits_ = limits; }
  void prioritize(const Priorities& priorities) { priorities_ = priorities; }

  void post(RequestPtr request);
  /// Declares that the stream of `request` has done the work that precedes `request`.
  void make_ready(const RequestPtr& request);
  /// Raises `request` and all earlier requests of its channel above all classes, if Priorities::by_need is set. A
  /// thread that waits for `request` also waits for the earlier requests.
  void boost(const Request& request);
  void boost_all();

  struct Start {
    RequestPtr request;  // null: no round may start now
    size_t round = 0;
  };
  /// Returns the next round to start. The round counts as in flight until finish() is called for it.
  Start next();
  /// Ends a round and calls its `finish`. Removes the request from the queue if the request is then done().
  void finish(const RequestPtr& request, size_t round);

  /// Returns an operation whose channel has made no progress for more than `limit` calls of overdue(), including this
  /// call; null if there is none. Considers only operations that are ready, or for which a thread waits. Ignores
  /// operations that wait for an operation of higher priority. Must be called at regular intervals. The limit counts
  /// calls instead of seconds, so that a process that was stopped for a while does not blame its peers.
  RequestPtr overdue(int limit);

  /// Returns one entry for each channel in which a thread waits for an operation. Returns entries for all channels if
  /// there is such a channel and Priorities::by_need is not set: any channel may then delay the operation. An entry
  /// contains the channel's first operation, and the channel's number of overdue() calls without progress.
  std::vector<std::pair<RequestPtr, int>> waited_for() const;
  /// Reduces the number of overdue() calls without progress to at most `quiet` in every channel.
  void reset_overdue(int quiet);

  bool empty() const { return queues_.empty(); }
  /// Removes and returns all requests. Used after a failure.
  std::vector<RequestPtr> drain();

 private:
  struct Queue {
    std::deque<RequestPtr> requests;
    int rounds_in_flight = 0;
    Volume in_flight;
    // Number of overdue() calls without progress, reduced by reset_overdue(). Becomes 0 when the channel finishes a
    // round, and when its first operation becomes ready. overdue() also sets the number to 0 in two cases: the channel
    // waits for traffic of higher priority, or it waits for a stream while no thread waits for the operation.
    int quiet = 0;
  };
  // Priority of a channel, by class and then by urgency. Smaller values go first.
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
  // True if a round of the first operation of the queue has finished. If the round was not empty, at least one peer has
  // then also begun the operation.
  static bool answered(const Queue& queue) { return queue.requests.front()->ended > 0; }
  // True if the queue is not boosted, and this rank also uses a higher priority on the same link.
  bool low(const Queue& queue) const;
  // True if the queue is not boosted, and all ranks have called an operation of higher priority on the same link.
  bool withheld(const Queue& queue) const;
  // Returns the next round of the queue's first operation if the operation is ready and the order of its rounds
  // permits.
  Start startable(Queue& queue) const;
  const Candidate* choose(const std::vector<Candidate>& sorted) const;
  // Returns the bytes by which the candidate would exceed the window of its priority on its link; at most 0 if it fits.
  Volume excess(const Candidate& c) const;

  Limits limits_;
  const MakeMessagePlan make_message_plan_;
  Priorities priorities_;
  int64_t arrivals_ = 0;
  std::set<std::tuple<Link, TrafficClass, Urgency>> used_;  // kinds of traffic posted so far, except control traffic
  std::map<Channel, Queue> queues_;
  std::map<Channel, int64_t> posted_;
};

}  // namespace hexad::comm
