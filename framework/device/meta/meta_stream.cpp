#include "framework/device/meta/meta_stream.h"

#include "framework/device/meta/issue_log.h"

namespace hexad::device {

void MetaStream::wait(const Event& event) {
  if (!log_) return event.wait();
  const auto mark = std::dynamic_pointer_cast<const IssueMark>(event.launched());
  if (mark) log_->wait(lane_, mark->issue());
}

Event MetaStream::record() {
  const int32_t last = log_ ? log_->last(lane_) : -1;
  return last < 0 ? Event() : Event::at(log_->mark(last));
}

Lane lane_of(const Stream& stream) {
  const auto* lane = dynamic_cast<const MetaStream*>(&stream);
  return lane ? lane->lane() : Lane::compute;
}

}  // namespace hexad::device
