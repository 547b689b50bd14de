#include "framework/device/meta/meta_stream.h"

#include "framework/device/meta/issue_log.h"

namespace hexad::device {

void MetaStream::wait(const Event& event) {
  if (!log_) return event.wait();
  const auto mark = std::dynamic_pointer_cast<const IssueMark>(event.launched());
  if (mark) log_->wait(lane_, *mark);
}

Event MetaStream::record() {
  const std::shared_ptr<const DeviceMark> mark = log_ ? log_->mark_of(lane_) : nullptr;
  return mark ? Event::at(mark) : Event();
}

Lane lane_of(const Stream& stream) {
  const auto* lane = dynamic_cast<const MetaStream*>(&stream);
  return lane ? lane->lane() : Lane::compute;
}

}  // namespace hexad::device
