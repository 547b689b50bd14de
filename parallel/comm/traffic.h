// Accounts of what groups send: bytes, time in flight and time waited for, by class of traffic.
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

/// The priority of a communicator inside its class. Operations of one communicator keep their order, so what is needed
/// sooner than the rest of its class has a communicator of its own (ProcessGroup::urgent).
enum class Urgency : uint8_t { urgent, ordinary };

/// Order of the operations that may start. The same on all ranks: lower classes give way while higher ones move, and
/// ranks must agree on which give way.
struct Priorities {
  /// Priority of each class: the smallest goes first, equal ones as they come.
  std::array<int, traffic_class_count> of_class{0, 1, 2, 3, 4, 5};
  /// Operations that a thread waits for precede all classes, and urgent ones the rest of their class.
  bool by_need = true;

  /// First come, first served: what MoNTA's order is compared with.
  static Priorities by_arrival() { return {.of_class = {}, .by_need = false}; }
};

/// Traffic of one class since the last time it was taken.
struct TrafficStats {
  int64_t bytes = 0;           // sent by this rank to others
  double seconds = 0;          // in which at least one operation was in flight
  double exposed_seconds = 0;  // in which a thread of this rank was blocked waiting for one
};

/// One per rank, shared by its groups. Thread-safe.
class TrafficMeter {
 public:
  /// Returns the traffic since the last call; operations still in flight count up to now.
  TrafficStats take(TrafficClass traffic);

  void flight_begins(TrafficClass traffic) { count(traffic, &Account::flying, +1, 0); }
  void flight_ends(TrafficClass traffic, int64_t bytes) { count(traffic, &Account::flying, -1, bytes); }
  /// Adds an operation that a device has done in `seconds`. Where several overlapped there, the time of each counts.
  void flew(TrafficClass traffic, double seconds, int64_t bytes);
  void wait_begins(TrafficClass traffic) { count(traffic, &Account::waited, +1, 0); }
  void wait_ends(TrafficClass traffic) { count(traffic, &Account::waited, -1, 0); }

  TrafficLog& log() { return log_; }

 private:
  // Time counts once however many operations share it.
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

/// One operation in flight: its event and its entries in the meter. Shared by threads that complete or await it.
class Flight {
 public:
  /// `waited` (may be null) is called once, by a thread that is about to block until the operation is done.
  static std::shared_ptr<Flight> make(std::shared_ptr<TrafficMeter> meter, TrafficClass traffic,
                                      std::function<void()> waited = nullptr);
  Event event() const { return Event(state_); }
  /// Makes the meter's log record this operation. The creator of the flight calls it before it shares the flight.
  void describe(std::string what, bool crosses_nodes);
  /// The time in flight starts here, not where the operation was requested.
  void begin();
  /// `bytes` were sent to others; `error` (may be null) is rethrown to those who wait. Later calls change nothing.
  void complete(int64_t bytes, std::exception_ptr error = nullptr);

 private:
  Flight(std::shared_ptr<TrafficMeter> meter, TrafficClass traffic) : meter_(std::move(meter)), traffic_(traffic) {}
  void wait_begins();

  std::shared_ptr<TrafficMeter> meter_;
  TrafficClass traffic_;
  std::shared_ptr<Event::State> state_ = Event::make_state();
  std::mutex mutex_;
  bool begun_ = false, waited_ = false, done_ = false;
  std::unique_ptr<TrafficRecord> record_;  // null: nobody asked for it
};

}  // namespace hexad::comm
