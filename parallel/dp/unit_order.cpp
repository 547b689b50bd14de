#include "parallel/dp/unit_order.h"

namespace hexad::dp {

size_t UnitOrder::use(size_t unit) {
  append(unit);
  return place_ == none ? none : history_[place_];
}

void UnitOrder::end_step() {
  append(none);
  forget(step_);
  step_ = history_.size() - 1;
}

void UnitOrder::append(size_t unit) {
  const bool follows = place_ != none && history_[place_] == unit;
  history_.push_back(unit);
  place_ = follows ? place_ + 1 : find_place();
  if (history_.size() - step_ <= most) return;
  forget(history_.size() - most / 2);
  step_ = 0;
}

void UnitOrder::forget(size_t count) {
  history_.erase(history_.begin(), history_.begin() + static_cast<std::ptrdiff_t>(count));
  place_ = place_ != none && place_ >= count ? place_ - count : find_place();
}

size_t UnitOrder::find_place() const {
  const size_t last = history_.size() - 1;
  size_t best = none, longest = 0;
  for (size_t end = last; end-- > 0;) {
    size_t equal = 0;
    while (equal <= end && history_[end - equal] == history_[last - equal]) ++equal;
    if (equal > longest) longest = equal, best = end + 1;
  }
  return best;
}

}  // namespace hexad::dp
