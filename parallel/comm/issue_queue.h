// Which round of which operation starts next: the priorities of the communication engine, without any communication.
#pragma once

#include <compare>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "parallel/comm/plan.h"
#include "parallel/comm/traffic.h"

namespace hexad::comm {

/// Operations of one channel start in one order on all ranks: a communicator's collectives, or its messages to or from
/// one peer.
struct Channel {
  enum class Kind : uint8_t { collective, send, receive };
  int communicator = 0;
  Kind kind = Kind::collective;
  int peer = -1;
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
  bool checked = false;                             // compares signatures with the peers first
  std::shared_ptr<Flight> flight;

  int64_t number = 0;   // on its channel, in the order of calls
  int64_t arrival = 0;  // among all
  bool ready = false;   // the work before it on its stream is done
  bool lifted = false;  // somebody waits for it or for a later one of its channel
  bool urgent = false;  // the rank's own thread waits: it has nothing else to do with its core
  Plan plan;            // made when its turn comes
  bool planned = false;
  size_t started = 0;          // rounds
  size_t finished_prefix = 0;  // rounds finished without a gap
  std::vector<bool> finished;
  int64_t sent_bytes = 0;

  bool done() const { return planned && finished_prefix == plan.rounds.size(); }
  std::string what() const { return cat("[", group, "] ", operation.to_string()); }  // for messages
};
using RequestPtr = std::shared_ptr<Request>;

/// Free of deadlock whatever ranks prefer: operations of a channel start in order, and the first unfinished round of
/// every channel may always start. Priority only decides who gets the rest of the window.
class IssueQueue {
 public:
  /// `window_bytes`: how much may be in flight beyond those first rounds; `round_bytes` cuts operations into rounds.
  IssueQueue(int64_t window_bytes, int64_t round_bytes) : window_bytes_(window_bytes), round_bytes_(round_bytes) {}

  void prioritize(const Priorities& priorities) { priorities_ = priorities; }

  void post(RequestPtr request);
  /// The work before `request` on its stream is done.
  void make_ready(const RequestPtr& request);
  /// Its whole channel up to `request` goes before all classes: waiting for it means waiting for those, too.
  void lift(const Request& request);

  struct Start {
    RequestPtr request;  // null: nothing may start now
    size_t round = 0;
  };
  /// The round to start now; it counts as in flight until finish().
  Start next();
  /// Runs what the round does at its end. Afterwards the request may be done(), and is then forgotten here.
  void finish(const RequestPtr& request, size_t round);

  /// Called at even times: returns an operation that is ready or waited for and on whose channel nothing was finished
  /// in the last `limit` calls, or null. Counting calls and not seconds, a process that was stopped itself does not
  /// find its peers late.
  RequestPtr overdue(int limit);

  bool empty() const { return lines_.empty(); }
  /// Takes out everything: for failures.
  std::vector<RequestPtr> drain();

 private:
  struct Line {
    std::deque<RequestPtr> requests;
    int rounds_in_flight = 0;
    int quiet = 0;  // calls of overdue() since something was finished here
  };
  // The next round of a line, if its order allows one to start.
  Start startable(Line& line) const;
  /// Smaller goes first; among equal ones what came first.
  std::pair<int, int64_t> priority(const Line& line) const;

  const int64_t window_bytes_, round_bytes_;
  Priorities priorities_;
  int64_t bytes_in_flight_ = 0, arrivals_ = 0;
  std::map<Channel, Line> lines_;
  std::map<Channel, int64_t> posted_;
};

}  // namespace hexad::comm
