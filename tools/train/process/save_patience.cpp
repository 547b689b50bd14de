#include "tools/train/process/save_patience.h"

#include <algorithm>

#include "tools/train/process/job_launcher.h"

namespace hexad::train {

void SavePatience::expect_save(double seconds) {
  save_seconds_ = seconds;
  compare();
}

void SavePatience::stepped(double seconds) {
  fastest_step_ = fastest_step_ > 0 ? std::min(fastest_step_, seconds) : seconds;
  compare();
}

void SavePatience::saved(double seconds) {
  if (!save_seconds_) return;
  save_seconds_ = seconds;
  compare();
}

void SavePatience::compare() {
  if (!save_seconds_) return;
  const std::string text = warn_of_short_patience(fastest_step_, *save_seconds_);
  if (text.empty()) return;
  warn_(text);
  save_seconds_.reset();
}

}  // namespace hexad::train
