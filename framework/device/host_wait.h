// Names of the waits of host threads for a device.
#pragma once

#include <string>
#include <string_view>

#include "framework/device/named_range.h"

namespace hexad::device {

/// Names the waits of the calling thread during the lifetime of this object. Profilers show this lifetime as a range.
/// Objects of one thread may be nested; the innermost name applies.
class HostWait {
 public:
  explicit HostWait(std::string name);
  ~HostWait();
  HostWait(const HostWait&) = delete;
  HostWait& operator=(const HostWait&) = delete;

  /// Returns the innermost name on the calling thread; empty if there is none.
  static std::string_view current();

 private:
  const std::string name_;
  const HostWait* const around_;
  const NamedRange range_;
};

}  // namespace hexad::device
