#include "tools/train/model/pass_recorder.h"

#include <algorithm>
#include <utility>

namespace hexad::train {

double PassRecorder::Recording::begin() const {
  return std::ranges::min_element(times, {}, &schedule::TaskTime::begin)->begin;
}

PassRecorder::PassRecorder(ModelInstance& instance) : instance_(instance) {
  instance_.passes.recorders.push_back(this);
}

void PassRecorder::add(Recording recording, schedule::ReadTimes times) {
  passes_.push_back(std::move(recording));
  unread_.push_back(std::move(times));
}

void PassRecorder::add(const schedule::PassName& name, std::shared_ptr<const schedule::StreamTimer> timer) {
  timers_.emplace_back(name, std::move(timer));
}

std::vector<PassRecorder::LayerTime> PassRecorder::layers() const {
  std::vector<LayerTime> all;
  for (const auto& [name, timer] : timers_) all.push_back({name, timer->read()});
  return all;
}

const std::vector<PassRecorder::Recording>& PassRecorder::passes() const {
  const size_t first = passes_.size() - unread_.size();
  for (size_t i = 0; i < unread_.size(); ++i) passes_[first + i].times = unread_[i]();
  unread_.clear();
  return passes_;
}

PassRecorder::~PassRecorder() { std::erase(instance_.passes.recorders, this); }

}  // namespace hexad::train
