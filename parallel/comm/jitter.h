// Deliberate delays, to show that no result depends on the order in which communication happens to be done.
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

/// Every operation or message is late by a time that the seed decides, up to `max_delay`; 0: none is.
struct Jitter {
  uint64_t seed = 0;
  std::chrono::microseconds max_delay{0};

  explicit operator bool() const { return max_delay.count() > 0; }
  /// A pure function of the seed and its arguments.
  std::chrono::microseconds delay(std::string_view what, uint64_t rank, uint64_t index) const;
};

/// A thread that does things later.
class DelayLine {
 public:
  DelayLine();
  /// Runs all remaining actions at once.
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
  std::thread thread_;  // last: it uses all of the above
};

/// A transport whose messages start late; those of one pair and tag keep their order.
std::unique_ptr<Transport> delayed(std::unique_ptr<Transport> transport, const Jitter& jitter);

}  // namespace hexad::comm
