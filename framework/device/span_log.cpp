#include "framework/device/span_log.h"

#include <utility>

#include "framework/base/clock.h"
#include "framework/base/error.h"
#include "framework/device/context.h"

namespace hexad::device {

using base::now;

bool SpanLog::on_device() const { return context_.compute().on_device(); }

void SpanLog::start() {
  recording_ = true;
  ++recordings_;
  sample();
}

SpanLog::Records SpanLog::stop() {
  sample();
  recording_ = false;
  for (size_t i = 0; i < records_.host.size(); ++i) {
    Recorded& span = records_.host[i];
    if (span.end == 0) end(i);
    if (marks_.empty()) continue;
    for (const Event& mark : marks_[i]) mark.wait();
    records_.device.push_back(
        {span.name, marks_[i][0].launched()->passed_at(), marks_[i][1].launched()->passed_at(), span.around});
  }
  marks_.clear();
  open_.clear();
  return std::exchange(records_, {});
}

void SpanLog::sample() {
  if (recording_ && !context_.meta()) records_.memory.push_back({now(), context_.used_memory()});
}

size_t SpanLog::begin(std::string name) {
  sample();
  records_.host.push_back({.name = std::move(name), .begin = now(), .around = innermost()});
  open_.push_back(records_.host.size() - 1);
  if (on_device()) marks_.push_back({context_.compute().record_timed(), {}});
  return records_.host.size() - 1;
}

void SpanLog::add_empty(std::string name, int32_t around) {
  base::require(recording_ && !on_device(), "[spans] span '", name, "' without a duration was added to a log that ",
                recording_ ? "has spans of a device" : "is not recording", "; expected a recording log of host spans");
  const double at = now();
  records_.host.push_back({.name = std::move(name), .begin = at, .end = at, .around = around});
}

void SpanLog::end(size_t span) {
  if (on_device()) marks_[span][1] = context_.compute().record_timed();
  records_.host[span].end = now();
  std::erase(open_, span);
  sample();
}

Span::Span(SpanLog& log, std::string_view name, std::string_view what) : log_(log) {
  if (!log.recording()) return;
  recording_ = log.recordings_;
  at_ = log.begin(what.empty() ? std::string(name) : base::cat(name, " ", what));
}

Span::~Span() {
  if (recording_ == 0 || recording_ != log_.recordings_ || !log_.recording()) return;
  try {
    log_.end(at_);
  } catch (...) {
    // The device has failed. The exception that leaves this span, or the next use of the device, reports the cause.
  }
}

}  // namespace hexad::device
