// Time spans of a rank's thread and samples of its memory use, for traces.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "framework/device/event.h"
#include "framework/device/memory.h"

namespace hexad::device {

class DeviceContext;

/// Log of a rank's time spans. Only the rank's thread may use it. Before start() and after stop(), nothing is recorded
/// and a span costs almost nothing.
class SpanLog {
 public:
  /// A span; times are in seconds of base::now(). Spans are sorted by begin, and a span may enclose other spans.
  struct Recorded {
    std::string name;
    double begin = 0, end = 0;
    int32_t around = -1;  // index of the innermost span that was open when this span began; -1: none
  };
  struct Sample {
    double time = 0;
    std::array<int64_t, category_count> used{};  // bytes in use, by category
  };
  struct Records {
    std::vector<Recorded> host;
    /// Spans of the device's compute queue, one for each span of the host; empty on a CPU and on a meta device.
    std::vector<Recorded> device;
    std::vector<Sample> memory;
  };

  explicit SpanLog(DeviceContext& context) : context_(context) {}
  SpanLog(const SpanLog&) = delete;
  SpanLog& operator=(const SpanLog&) = delete;

  bool recording() const { return recording_; }
  void start();
  /// Stops recording, ends the spans that are still open, waits until the device has passed all spans, and returns the
  /// records.
  Records stop();
  /// Records the memory in use at this time. Does nothing if the log is not recording, or on a meta device, on which no
  /// time passes between samples.
  void sample();
  /// Returns the index of the innermost open span; -1: none.
  int32_t innermost() const { return open_.empty() ? -1 : static_cast<int32_t>(open_.back()); }
  /// Returns the spans of the host since start(). Spans that are still open have the end 0.
  const std::vector<Recorded>& recorded() const { return records_.host; }
  /// Appends a span that begins and ends now, inside span number `around` (-1: none). Requires that the log is
  /// recording, and that the compute stream is not a queue of a device.
  void add_empty(std::string name, int32_t around);

 private:
  friend class Span;
  size_t begin(std::string name);
  void end(size_t span);
  bool on_device() const;

  DeviceContext& context_;
  bool recording_ = false;
  int64_t recordings_ = 0;
  Records records_;
  std::vector<size_t> open_;  // indices of the open spans, outermost first
  std::vector<std::array<Event, 2>>
      marks_;  // the device's marks of the spans in records_.host; empty on a CPU and on a meta device
};

/// A span from the construction to the destruction of this object. The span is recorded only if the log is recording at
/// construction.
class Span {
 public:
  /// Begins a span. Its name is `name`, followed by a space and `what` if `what` is not empty.
  Span(SpanLog& log, std::string_view name, std::string_view what = {});
  ~Span();
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  SpanLog& log_;
  int64_t recording_ = 0;  // number of the log's recording at construction; 0: not recording
  size_t at_ = 0;
};

}  // namespace hexad::device
