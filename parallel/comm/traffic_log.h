// Log of the operations of a rank's groups, for traces.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "parallel/comm/traffic_class.h"

namespace hexad::comm {

/// One operation of a group. Times are in seconds of base::now().
struct TrafficRecord {
  TrafficClass traffic = TrafficClass::control;
  std::string what = {};       // description, such as "all_reduce of f32 [128]"
  bool crosses_nodes = false;  // true if the ranks are on several nodes
  int64_t bytes = 0;           // bytes sent by this rank to other ranks
  double begin = 0, end = 0;   // begin and end of the operation's time in flight
  // Time at which the rank's thread began to wait for the operation; 0 if the thread did not wait, or if another thread
  // began to wait first.
  double waited_from = 0;
};

/// Log of the operations of one rank. All groups of the rank share the log. Records nothing until start() is called.
/// Thread-safe.
class TrafficLog {
 public:
  bool recording() const { return recording_.load(std::memory_order_relaxed); }
  /// Starts recording. Must be called on the rank's own thread, because only waits of the calling thread are recorded.
  void start();
  /// Stops recording. Returns the operations that have ended since start(), ordered by end.
  std::vector<TrafficRecord> stop();

  /// True on the thread that called start().
  bool on_rank_thread() const;
  /// Adds a record if the log is recording.
  void add(TrafficRecord record);

 private:
  std::atomic<bool> recording_ = false;
  mutable std::mutex mutex_;
  std::thread::id rank_thread_;
  std::vector<TrafficRecord> records_;
};

}  // namespace hexad::comm
