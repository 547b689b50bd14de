// Deliberate delays. Tests and `hexad verify` use them to show that no result depends on the order of communication.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "framework/base/philox.h"
#include "parallel/comm/transport.h"

namespace hexad::comm {

/// Delays of operations or messages. The maximum is `max_delay`; 0 turns delays off.
struct Jitter {
  uint64_t seed = 0;
  std::chrono::microseconds max_delay{0};

  explicit operator bool() const { return max_delay.count() > 0; }
  /// Returns a delay that depends only on the members and the arguments.
  std::chrono::microseconds delay(std::string_view what, uint64_t rank, uint64_t index) const;
};

/// A thread that runs actions after given delays.
class DelayLine {
 public:
  DelayLine();
  /// Runs all remaining actions immediately, then ends the thread.
  ~DelayLine();
  DelayLine(const DelayLine&) = delete;
  DelayLine& operator=(const DelayLine&) = delete;

  void after(std::chrono::microseconds delay, std::function<void()> action);

 private:
  using Clock = std::chrono::steady_clock;
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::multimap<Clock::time_point, std::function<void()>> actions_;
  bool stopping_ = false;
  std::thread thread_;  // declared last, because the thread uses all other members
};

/// Returns a transport that delays the messages of `transport`. Messages with the same sender, receiver and tag keep
/// their order.
std::unique_ptr<Transport> delayed(std::unique_ptr<Transport> transport, const Jitter& jitter);

}  // namespace hexad::comm
