#include "tools/train/model/pass_recorder.h"

#include <algorithm>

namespace hexad::train {

double PassRecorder::Recording::begin() const {
  return std::ranges::min_element(times, {}, &schedule::TaskTime::begin)->begin;
}

PassRecorder::PassRecorder(ModelInstance& instance) : instance_(instance) {
  instance_.passes.recorders.push_back(this);
}

PassRecorder::~PassRecorder() { std::erase(instance_.passes.recorders, this); }

}  // namespace hexad::train
