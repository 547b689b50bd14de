// What this process runs on.
#pragma once

#include <cstdint>
#include <string>

namespace hexad::app {

/// Cores that this process may run on (its affinity).
int64_t usable_cores();
/// "Intel(R) Xeon(R) ..., 2 cores".
std::string processor_name();
/// Largest resident memory of this process so far, in bytes.
int64_t peak_resident_bytes();

}  // namespace hexad::app
