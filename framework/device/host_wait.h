// Names of a host thread's waits for a device.
#pragma once

#include <string>
#include <string_view>

#include "framework/device/named_range.h"

namespace hexad::device {

/// Names what this thread waits for during the lifetime of the object. Profilers show the wait as a range. Objects of
/// one thread nest; the innermost name counts.
class HostWait {
 public:
  explicit HostWait(std::string name);
  ~HostWait();
  HostWait(const HostWait&) = delete;
  HostWait& operator=(const HostWait&) = delete;

  /// Returns the innermost name on this thread; empty if there is none.
  static std::string_view current();

 private:
  const std::string name_;
  const HostWait* const around_;
  const NamedRange range_;
};

}  // namespace hexad::device
