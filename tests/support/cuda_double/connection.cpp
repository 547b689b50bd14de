#include "tests/support/cuda_double/connection.h"

#include <algorithm>
#include <map>
#include <vector>

#include "tests/support/cuda_double/device.h"

namespace hexad::cuda_double {

int64_t Connection::append() {
  std::lock_guard lock(mutex_);
  waiting_.insert(next_);
  return next_++;
}

void Connection::await_turn(int64_t work) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return *waiting_.begin() == work; });
}

void Connection::begin(int64_t work) {
  {
    std::lock_guard lock(mutex_);
    waiting_.erase(work);
  }
  changed_.notify_all();
}

std::shared_ptr<Connection> connection_for(int device) {
  using Connections = std::vector<std::shared_ptr<Connection>>;
  static std::mutex& mutex = *new std::mutex;  // never destroyed, like the mutex of the streams
  static auto& of_devices = *new std::map<int, Connections>;
  std::lock_guard lock(mutex);
  Connections& all = of_devices[device];
  while (std::ssize(all) < settings().connections) all.push_back(std::make_shared<Connection>());
  return *std::ranges::min_element(all, {}, [](const auto& connection) { return connection.use_count(); });
}

}  // namespace hexad::cuda_double
