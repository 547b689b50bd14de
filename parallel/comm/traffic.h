// Statistics of the traffic of groups, by class: bytes, time in flight, and time for which threads were blocked.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "framework/device/event.h"
#include "framework/device/wait_observer.h"
#include "parallel/comm/traffic_log.h"

namespace hexad::comm {

using device::Event;

/// Priority of a communicator within its class. A communicator keeps the order of its operations. Operations that are
/// needed sooner than other operations of their class therefore have a separate communicator (ProcessGroup::urgent).
enum class Urgency : uint8_t { urgent, ordinary };

/// Order in which operations start. Classes of lower priority give way to classes of higher priority (IssueQueue; with
/// NCCL, nccl::stream_priority()). All ranks must have the same priorities, so that the same class waits on all ranks.
struct Priorities {
  /// Priority of each class. Smaller values go first. Classes with equal values keep their order of arrival.
  std::array<int, traffic_class_count> of_class{0, 1, 2, 3, 4, 5};
  /// True if operations for which a thread waits precede all other operations, and urgent operations precede other
  /// operations of their class.
  bool by_need = true;

  /// Returns equal priorities, for comparisons. Operations then start in the order of arrival, as in MoNTA.
  static Priorities by_arrival() { return {.of_class = {}, .by_need = false}; }
};

/// Traffic of one class since the previous TrafficMeter::take().
struct TrafficStats {
  int64_t bytes = 0;   // bytes sent by this rank to other ranks
  double seconds = 0;  // seconds during which at least one operation was in flight; see also add_device_operation()
  // Seconds for which a thread of this rank was blocked on an operation. During the lifetime of a RankThread, this time
  // counts only while the rank's thread is also blocked, on this operation or on another thread.
  double exposed_seconds = 0;
};

/// Statistics of the traffic of one rank. All groups of the rank share the meter. Thread-safe.
class TrafficMeter final : public device::WaitObserver {
 public:
  /// Returns the traffic since the previous call. Counts the time of unfinished flights up to this call. The bytes of a
  /// flight are counted when the flight ends. add_device_operation() counts time and bytes when it is called.
  TrafficStats take(TrafficClass traffic);

  void flight_begins(TrafficClass traffic) { count(traffic, &Account::flying, +1, 0); }
  void flight_ends(TrafficClass traffic, int64_t bytes) { count(traffic, &Account::flying, -1, bytes); }
  /// Adds an operation that took `seconds` on a device. The times of overlapping device operations are added up.
  void add_device_operation(TrafficClass traffic, double seconds, int64_t bytes);
  void wait_begins(TrafficClass traffic) { count(traffic, &Account::waited, +1, 0); }
  void wait_ends(TrafficClass traffic) { count(traffic, &Account::waited, -1, 0); }

  /// State of the rank's thread. unknown: there is no RankThread, so waits of all threads count.
  enum class RankThreadState : uint8_t { unknown, runs, blocked };
  void set_rank_thread(RankThreadState state);
  void blocked() override { set_rank_thread(RankThreadState::blocked); }
  void resumed() override { set_rank_thread(RankThreadState::runs); }
  /// True while the rank's thread is blocked. False if there is no RankThread.
  bool rank_is_blocked() const;

  TrafficLog& log() { return log_; }

 private:
  // Time in flight, or time for which threads were blocked. Overlapping times are counted only once.
  struct Span {
    int open = 0;
    bool runs = false;  // true if time is counted
    double since = 0, seconds = 0;

    void run(bool wanted, double time);
    /// Returns the seconds since the previous call.
    double take(double time);
  };
  struct Account {
    int64_t bytes = 0;
    Span flying, waited;
  };
  void count(TrafficClass traffic, Span Account::*span, int change, int64_t bytes);
  void update(Account& account, double time);

  mutable std::mutex mutex_;
  RankThreadState rank_thread_ = RankThreadState::unknown;
  std::array<Account, traffic_class_count> accounts_;
  TrafficLog log_;
};

/// Makes exposed_seconds count only the time during which the calling thread, the rank's own, is blocked. Lanes with
/// separate threads may wait while this thread computes. Must be destroyed on the same thread.
class RankThread {
 public:
  /// `meter` must outlive this object.
  explicit RankThread(TrafficMeter& meter) : meter_(meter), observed_(meter) {
    meter.set_rank_thread(TrafficMeter::RankThreadState::runs);
  }
  ~RankThread() { meter_.set_rank_thread(TrafficMeter::RankThreadState::unknown); }
  RankThread(const RankThread&) = delete;
  RankThread& operator=(const RankThread&) = delete;

 private:
  TrafficMeter& meter_;
  const device::ObservedThread observed_;
};

/// One operation in flight: its event, and its contribution to the meter's statistics. The threads that complete the
/// operation or wait for it share the Flight.
class Flight {
 public:
  /// Makes a flight. `waited` is called once, if it is not null: by the first thread that is about to block until the
  /// operation is done, or that announces a wait (Event::expect()).
  static std::shared_ptr<Flight> make(std::shared_ptr<TrafficMeter> meter, TrafficClass traffic,
                                      std::function<void()> waited = nullptr);
  Event event() const { return Event(state_); }
  /// True if the meter's log is recording, or may begin to record before the operation ends. The second case is
  /// possible for a step's gathers of weights, which may end in the next step. The class of these gathers is dp, or pp
  /// for an embedding on two stages.
  bool may_be_logged() const;
  /// Makes complete() add this operation to the meter's log. Must be called before the flight is shared with other
  /// threads.
  void describe(std::string what, bool crosses_nodes);
  /// Starts the time in flight. Time before this call is not counted.
  void begin();
  /// Completes the operation, which has sent `bytes` bytes to other ranks. Waiting threads rethrow `error` if it is not
  /// null. Later calls have no effect.
  void complete(int64_t bytes, std::exception_ptr error = nullptr);

 private:
  Flight(std::shared_ptr<TrafficMeter> meter, TrafficClass traffic) : meter_(std::move(meter)), traffic_(traffic) {}
  void wait_begins();

  std::shared_ptr<TrafficMeter> meter_;
  TrafficClass traffic_;
  std::shared_ptr<Event::State> state_ = Event::make_state();
  std::mutex mutex_;
  bool begun_ = false, waited_ = false, done_ = false;
  std::unique_ptr<TrafficRecord> record_;  // null if the log does not record the operation
};

}  // namespace hexad::comm
