// Enforcement of file permissions in tests that run as root.
#pragma once

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

namespace hexad::tests {

/// Makes this thread obey file permissions even if it runs as root, for the lifetime of the object. New threads of this
/// thread inherit the restriction.
class HeedFilePermissions {
 public:
  HeedFilePermissions() {
    ::syscall(SYS_capget, &header_, before_.data());
    Sets without = before_;
    without[0].effective &= ~(CAP_TO_MASK(CAP_DAC_OVERRIDE) | CAP_TO_MASK(CAP_DAC_READ_SEARCH));
    ::syscall(SYS_capset, &header_, without.data());
  }
  ~HeedFilePermissions() { ::syscall(SYS_capset, &header_, before_.data()); }
  HeedFilePermissions(const HeedFilePermissions&) = delete;
  HeedFilePermissions& operator=(const HeedFilePermissions&) = delete;

 private:
  using Sets = std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3>;

  __user_cap_header_struct header_{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  Sets before_{};
};

}  // namespace hexad::tests
