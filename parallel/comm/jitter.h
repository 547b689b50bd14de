// Deliberate delays, which show that no result depends on the order of communication.
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

/// Delays of operations or messages. The seed decides each delay, up to `max_delay`. A `max_delay` of 0 delays nothing.
struct Jitter {
  uint64_t seed = 0;
  std::chrono::microseconds max_delay{0};

  explicit operator bool() const { return max_delay.count() > 0; }
  /// Returns a delay, which is a pure function of the seed and the arguments.
  std::chrono::microseconds delay(std::string_view what, uint64_t rank, uint64_t index) const;
};

/// A thread that runs actions after a delay.
class DelayLine {
 public:
  DelayLine();
  /// Runs all remaining actions immediately.
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
  std::thread thread_;  // last, because it uses all members above
};

/// Returns a transport that starts the messages of `transport` late. Messages of one pair and tag keep their order.
std::unique_ptr<Transport> delayed(std::unique_ptr<Transport> transport, const Jitter& jitter);

}  // namespace hexad::comm
