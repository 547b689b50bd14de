// Hardware connections of a device, through which streams submit their work.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>

namespace hexad::cuda_double {

/// Queue of the work of several streams, in the order of the calls. Work begins once all earlier work of the connection
/// has begun. Therefore, work that waits for an event, or for earlier work of its own stream, delays all streams that
/// share the connection. Thread-safe.
class Connection {
 public:
  /// Appends work. Returns its number.
  int64_t append();
  /// Waits until all work before number `work` has begun.
  void await_turn(int64_t work);
  /// Marks number `work` as begun.
  void begin(int64_t work);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<int64_t> waiting_;  // work that has not begun
  int64_t next_ = 0;
};

/// Returns the connection of `device` that has the fewest streams, for a new stream. The stream holds the connection
/// during the lifetime of the stream. A device has Settings::connections connections.
std::shared_ptr<Connection> connection_for(int device);

}  // namespace hexad::cuda_double
