// Accounts of the traffic of groups, by class: bytes, time in flight, and time in which threads were blocked.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "framework/device/event.h"
#include "parallel/comm/traffic_log.h"

namespace hexad::comm {

using device::Event;

/// Priority of a communicator inside its class. Operations of one communicator keep their order. Operations that are
/// needed sooner than the rest of their class therefore use a separate communicator (ProcessGroup::urgent).
enum class Urgency : uint8_t { urgent, ordinary };

/// Order of the operations that may start. Lower classes give way while higher classes move. All ranks must have the
/// same priorities, because they must agree on the classes that give way.
struct Priorities {
  /// Priority of each class: the smallest value goes first. Classes of equal value keep the order of arrival.
  std::array<int, traffic_class_count> of_class{0, 1, 2, 3, 4, 5};
  /// True if operations that a thread waits for precede all classes, and urgent operations precede the rest of their
  /// class.
  bool by_need = true;

  /// Returns equal priorities, so that operations start in the order of arrival, for comparison with MoNTA's order.
  static Priorities by_arrival() { return {.of_class = {}, .by_need = false}; }
};

/// Traffic of one class since the last TrafficMeter::take().
struct TrafficStats {
  int64_t bytes = 0;           // sent by this rank to other ranks
  double seconds = 0;          // time in which at least one operation was in flight
  double exposed_seconds = 0;  // time in which a thread of this rank was blocked on an operation
};

/// Counts the traffic of one rank; its groups share it. Thread-safe.
class TrafficMeter {
 public:
  /// Returns the traffic since the last call. Operations in flight count up to this call.
  TrafficStats take(TrafficClass traffic);

  void flight_begins(TrafficClass traffic) { count(traffic, &Account::flying, +1, 0); }
  void flight_ends(TrafficClass traffic, int64_t bytes) { count(traffic, &Account::flying, -1, bytes); }
  /// Adds an operation that a device has executed in `seconds`. If several operations overlapped there, the time of
  /// each one counts.
  void flew(TrafficClass traffic, double seconds, int64_t bytes);
  void wait_begins(TrafficClass traffic) { count(traffic, &Account::waited, +1, 0); }
  void wait_ends(TrafficClass traffic) { count(traffic, &Account::waited, -1, 0); }

  TrafficLog& log() { return log_; }

 private:
  // Operations that overlap count the same time only once.
  struct Span {
    int open = 0;
    double since = 0, seconds = 0;
  };
  struct Account {
    int64_t bytes = 0;
    Span flying, waited;
  };
  void count(TrafficClass traffic, Span Account::*span, int change, int64_t bytes);

  std::mutex mutex_;
  std::array<Account, traffic_class_count> accounts_;
  TrafficLog log_;
};

/// One operation in flight: its event and its entries in the meter. Shared by the threads that complete it or wait for
/// it.
class Flight {
 public:
  /// Makes a flight. `waited` (may be null) is called once, by a thread that is about to block until the operation is
  /// done.
  static std::shared_ptr<Flight> make(std::shared_ptr<TrafficMeter> meter, TrafficClass traffic,
                                      std::function<void()> waited = nullptr);
  Event event() const { return Event(state_); }
  /// Makes the meter's log record this operation. The creator of the flight calls it before it shares the flight.
  void describe(std::string what, bool crosses_nodes);
  /// Starts the time in flight. The time between the request and this call does not count.
  void begin();
  /// Completes the operation. `bytes` were sent to other ranks. `error` (may be null) is rethrown to waiting threads.
  /// Later calls change nothing.
  void complete(int64_t bytes, std::exception_ptr error = nullptr);

 private:
  Flight(std::shared_ptr<TrafficMeter> meter, TrafficClass traffic) : meter_(std::move(meter)), traffic_(traffic) {}
  void wait_begins();

  std::shared_ptr<TrafficMeter> meter_;
  TrafficClass traffic_;
  std::shared_ptr<Event::State> state_ = Event::make_state();
  std::mutex mutex_;
  bool begun_ = false, waited_ = false, done_ = false;
  std::unique_ptr<TrafficRecord> record_;  // null: the log does not record the operation
};

}  // namespace hexad::comm
