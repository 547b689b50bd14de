// Spans of a rank's thread and samples of memory use, for traces.
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

/// Time spans of a rank. Only the rank's thread may use it. Records nothing before start(); recording costs almost
/// nothing.
class SpanLog {
 public:
  /// A span, in seconds of base::now(). Spans are in the order of their begins; a span may be inside another.
  struct Recorded {
    std::string name;
    double begin = 0, end = 0;
    int32_t around = -1;  // number of the innermost span that was open when this span began; -1: none
  };
  struct Sample {
    double time = 0;
    std::array<int64_t, category_count> used{};  // bytes
  };
  struct Records {
    std::vector<Recorded> host;
    /// Spans as executed by the device's compute queue, one for each span of the host; empty if kernels run on the
    /// host.
    std::vector<Recorded> device;
    std::vector<Sample> memory;
  };

  explicit SpanLog(DeviceContext& context) : context_(context) {}
  SpanLog(const SpanLog&) = delete;
  SpanLog& operator=(const SpanLog&) = delete;

  bool recording() const { return recording_; }
  void start();
  /// Waits for the device and returns the records. Spans that are still open end now.
  Records stop();
  /// Records the memory in use.
  void sample();
  /// Returns the number of the last begun span that is still open; -1: none.
  int32_t innermost() const { return open_.empty() ? -1 : static_cast<int32_t>(open_.back()); }

 private:
  friend class Span;
  size_t begin(std::string name);
  void end(size_t span);
  bool on_device() const;

  DeviceContext& context_;
  bool recording_ = false;
  int64_t recordings_ = 0;
  Records records_;
  std::vector<size_t> open_;                 // numbers of open spans, in the order of their begins
  std::vector<std::array<Event, 2>> marks_;  // marks of the spans in records_.device
};

/// A span from construction to destruction, if the log is recording at construction.
class Span {
 public:
  /// The span is called `name`, followed by a space and `what` unless `what` is empty.
  Span(SpanLog& log, std::string_view name, std::string_view what = {});
  ~Span();
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  SpanLog& log_;
  int64_t recording_ = 0;  // number of the log's recording; 0: none
  size_t at_ = 0;
};

}  // namespace hexad::device
