// Spans of a rank's thread and the memory in use meanwhile, for traces.
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

/// A rank's spans of time. Belongs to the rank's thread. Records nothing until start(), and then costs next to nothing.
class SpanLog {
 public:
  /// Seconds of base::now(). Spans are in the order of their begins; one may lie inside another.
  struct Recorded {
    std::string name;
    double begin = 0, end = 0;
  };
  struct Sample {
    double time = 0;
    std::array<int64_t, category_count> used{};  // bytes
  };
  struct Records {
    std::vector<Recorded> host;
    /// The same spans as a device's compute queue went through them; empty where kernels run on the host.
    std::vector<Recorded> device;
    std::vector<Sample> memory;
  };

  explicit SpanLog(DeviceContext& context) : context_(context) {}
  SpanLog(const SpanLog&) = delete;
  SpanLog& operator=(const SpanLog&) = delete;

  bool recording() const { return recording_; }
  void start();
  /// Returns the records. Waits for the device. Spans that are still open end now.
  Records stop();
  /// Notes the memory in use.
  void sample();

 private:
  friend class Span;
  size_t begin(std::string name);
  void end(size_t span);
  bool on_device() const;

  DeviceContext& context_;
  bool recording_ = false;
  int64_t recordings_ = 0;
  Records records_;
  std::vector<std::array<Event, 2>> marks_;  // of records_.device
};

/// From construction to destruction, if the log records then.
class Span {
 public:
  /// The name is `name`, and after a space `what` if there is any.
  Span(SpanLog& log, std::string_view name, std::string_view what = {});
  ~Span();
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  SpanLog& log_;
  int64_t recording_ = 0;  // the log's; 0: none
  size_t at_ = 0;
};

}  // namespace hexad::device
