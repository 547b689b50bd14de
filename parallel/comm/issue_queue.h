// Chooses the round that starts next: the priorities of the communication engine, without any communication.
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

/// Limits of how much moves at once.
struct Limits {
  /// Bytes a rank sends in one round of an operation, over all peers: the grain of priorities. The same on all ranks.
  int64_t round_bytes = 128 << 10;
  /// Bytes in flight on a link, in each direction, of classes that no other class in use there goes before. The first
  /// round of each communicator may exceed it. Large enough that the link stays busy until the engine looks again.
  int64_t window_bytes = 2 << 20;
  /// The same for each class below another one that this rank uses on the link. A higher class has to wait for these
  /// bytes: they are in the buffers of sockets and switches when it comes.
  int64_t low_window_bytes = 256 << 10;
};

/// Kind of link that an operation passes.
enum class Link : uint8_t { node, network };

/// A communicator's collectives, or its messages to or from one peer. The operations of one channel start in the same
/// order on all ranks.
struct Channel {
  enum class Kind : uint8_t { collective, send, receive };
  int communicator = 0;
  Kind kind = Kind::collective;
  int peer = -1;
  Urgency urgency = Urgency::ordinary;  // of the communicator
  auto operator<=>(const Channel&) const = default;
};

/// An operation given to the engine. Touched by the engine's thread alone once posted, except `flight`.
struct Request {
  Channel channel;
  TrafficClass traffic;
  std::string group;                                // its name
  std::shared_ptr<const std::vector<int>> members;  // world ranks of the group
  Operation operation;                              // holds the tensors
  int rank = 0;                                     // in the group
  Link link = Link::network;
  int64_t round_bytes = Limits{}.round_bytes;
  bool checked = false;  // compares signatures with the peers first
  std::shared_ptr<Flight> flight;

  int64_t number = 0;    // on its channel, in the order of calls
  int64_t arrival = 0;   // among all
  bool ready = false;    // the work before it on its stream is done
  bool boosted = false;  // somebody waits for it or for a later one of its channel
  bool awaited = false;  // a thread of the rank stands still until it is done
  bool urgent = false;   // the rank's own thread waits: it has nothing else to do with its core
  MessagePlan plan;      // made when its turn comes
  bool planned = false;
  size_t started = 0;          // rounds
  size_t finished_prefix = 0;  // rounds finished without a gap
  std::vector<bool> finished;
  size_t ended = 0;          // rounds
  std::vector<int> unheard;  // other ranks that have not shown yet that they take part
  int64_t sent_bytes = 0;

  /// All its ranks have called it, so it will end without further work of their programs. Stays false where some ranks
  /// send each other nothing: from those nothing is heard.
  bool matched() const { return planned && unheard.empty(); }
  bool done() const { return planned && finished_prefix == plan.rounds.size(); }
  std::string what() const { return cat("[", group, "] ", operation.to_string()); }  // for messages
};
using RequestPtr = std::shared_ptr<Request>;

/// Priority decides who gets the windows, and a channel waits while one of higher priority moves on the same link.
///
/// Why this cannot deadlock: operations of a channel start in order. The first unfinished round of every channel may
/// start, unless an operation of higher priority is in flight that all its ranks have called. Such an operation needs
/// only links to end, not the work of any program. Priorities are the same on all ranks, so nothing holds up the
/// highest of these operations: it ends, then the next one does.
class IssueQueue {
 public:
  explicit IssueQueue(const Limits& limits, MakeMessagePlan make_message_plan = comm::make_message_plan)
      : limits_(limits), make_message_plan_(make_message_plan) {}

  void limit(const Limits& limits) { limits_ = limits; }
  void prioritize(const Priorities& priorities) { priorities_ = priorities; }

  void post(RequestPtr request);
  /// The work before `request` on its stream is done.
  void make_ready(const RequestPtr& request);
  /// Its whole channel up to `request` goes before all classes: waiting for it means waiting for those, too.
  void boost(const Request& request);
  void boost_all();

  struct Start {
    RequestPtr request;  // null: nothing may start now
    size_t round = 0;
  };
  /// The round to start now; it counts as in flight until finish().
  Start next();
  /// Runs what the round does at its end. Afterwards the request may be done(), and is then forgotten here.
  void finish(const RequestPtr& request, size_t round);

  /// Called at regular intervals. Returns an operation that is ready or waited for and on whose channel nothing was
  /// finished in the last `limit` calls, or null. Calls are counted, not seconds: a process that was itself stopped for
  /// a while does not take its peers to be late.
  RequestPtr overdue(int limit);

  /// Operations that somebody waits for, or that come before such a one: the first of each channel, and the calls of
  /// overdue() since something was finished there.
  std::vector<std::pair<RequestPtr, int>> waited_for() const;
  /// Resets the overdue counters: from now on each channel counts as quiet for at most `quiet` calls of overdue().
  void forgive(int quiet);

  bool empty() const { return queues_.empty(); }
  /// Takes out everything: for failures.
  std::vector<RequestPtr> drain();

 private:
  struct Queue {
    std::deque<RequestPtr> requests;
    int rounds_in_flight = 0;
    Volume in_flight;
    int quiet = 0;  // calls of overdue() since something was finished here
  };
  // Smaller goes first: the class, then the urgency.
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
  // True if other ranks have begun its first operation, too.
  static bool answered(const Queue& queue) { return queue.requests.front()->ended > 0; }
  // True if this rank uses a higher priority on the queue's link.
  bool low(const Queue& queue) const;
  // True if a higher priority moves on the queue's link just now.
  bool withheld(const Queue& queue) const;
  // The next round of a queue, if its order allows one to start.
  Start startable(Queue& queue) const;
  const Candidate* choose(const std::vector<Candidate>& sorted) const;
  // Excess over the window of its priority on its link if it starts: at most 0 if it has room.
  Volume excess(const Candidate& c) const;

  Limits limits_;
  const MakeMessagePlan make_message_plan_;
  Priorities priorities_;
  int64_t arrivals_ = 0;
  std::set<std::tuple<Link, TrafficClass, Urgency>> used_;  // control apart
  std::map<Channel, Queue> queues_;
  std::map<Channel, int64_t> posted_;
};

}  // namespace hexad::comm
