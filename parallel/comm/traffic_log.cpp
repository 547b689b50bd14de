#include "parallel/comm/traffic_log.h"

#include <utility>

namespace hexad::comm {

void TrafficLog::start() {
  std::lock_guard lock(mutex_);
  rank_thread_ = std::this_thread::get_id();
  recording_ = true;
}

std::vector<TrafficRecord> TrafficLog::stop() {
  std::lock_guard lock(mutex_);
  recording_ = false;
  return std::exchange(records_, {});
}

bool TrafficLog::on_rank_thread() const {
  std::lock_guard lock(mutex_);
  return rank_thread_ == std::this_thread::get_id();
}

void TrafficLog::add(TrafficRecord record) {
  std::lock_guard lock(mutex_);
  if (recording()) records_.push_back(std::move(record));
}

}  // namespace hexad::comm
