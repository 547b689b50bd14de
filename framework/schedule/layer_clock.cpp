#include "framework/schedule/layer_clock.h"

#include "framework/base/clock.h"
#include "framework/base/error.h"
#include "framework/device/host_wait.h"

namespace hexad::schedule {

StreamTimer::StreamTimer(device::Stream& stream) : begin_(mark(stream)) {}

void StreamTimer::stop(device::Stream& stream) { end_ = mark(stream); }

TaskTime StreamTimer::read() const {
  base::require(end_ != nullptr,
                "[stream_timer] read() was called while the timer runs; expected a call of stop() first");
  return {time_of(*begin_), time_of(*end_)};
}

std::shared_ptr<const StreamTimer::Mark> StreamTimer::mark(device::Stream& stream) {
  const auto mark = std::make_shared<Mark>();
  mark->on_device = stream.on_device();
  if (!mark->on_device) stream.run([mark] { mark->time = base::now(); });
  mark->passed = mark->on_device ? stream.record_timed() : stream.record();
  return mark;
}

double StreamTimer::time_of(const Mark& mark) {
  if (!mark.on_device) {
    mark.passed.wait();
    return mark.time;
  }
  const auto passed = mark.passed.launched();
  if (!passed->passed()) {
    const device::HostWait named("times of tasks");
    passed->wait();
  }
  return passed->passed_at();
}

}  // namespace hexad::schedule
