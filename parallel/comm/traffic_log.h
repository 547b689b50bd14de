// The operations of a rank's groups, one by one: for traces.
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
  int64_t bytes = 0;           // sent by this rank to others
  double begin = 0, end = 0;   // in flight
  double waited_from = 0;      // from then on the rank's thread was blocked; 0: it was not
};

/// One per rank, shared by its groups. Records nothing until start(). Thread-safe.
class TrafficLog {
 public:
  bool recording() const { return recording_.load(std::memory_order_relaxed); }
  /// The caller is the rank's thread: what it waits for is noted, what other threads wait for is not.
  void start();
  /// The operations that have ended since, in the order of their ends.
  std::vector<TrafficRecord> stop();

  /// True on the thread that called start().
  bool on_rank_thread() const;
  /// Does nothing unless the log records.
  void add(TrafficRecord record);

 private:
  std::atomic<bool> recording_ = false;
  mutable std::mutex mutex_;
  std::thread::id rank_thread_;
  std::vector<TrafficRecord> records_;
};

}  // namespace hexad::comm
