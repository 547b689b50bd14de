// Log of single operations of a rank's groups, for traces.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "parallel/comm/traffic_class.h"

namespace hexad::comm {

/// One operation of a group. Times are seconds of base::now().
struct TrafficRecord {
  TrafficClass traffic = TrafficClass::control;
  std::string what = {};       // "all_reduce of f32 [128]"
  bool crosses_nodes = false;  // between ranks of several nodes
  int64_t bytes = 0;           // sent by this rank to other ranks
  double begin = 0, end = 0;   // begin and end of the time in flight
  double waited_from = 0;      // time from which the rank's thread was blocked; 0: never
};

/// Log of one rank; its groups share it. Records nothing until start(). Thread-safe.
class TrafficLog {
 public:
  bool recording() const { return recording_.load(std::memory_order_relaxed); }
  /// Starts recording. The calling thread is the rank's thread: only its waits are recorded.
  void start();
  /// Stops recording. Returns the operations that have ended since start(), in the order of their ends.
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
