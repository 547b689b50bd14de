// Size of a block as taken from the system.
#pragma once

#include <cstdint>

namespace hexad::device {

/// Returns the size taken for a block of `bytes`: rounded up to eighths of a power of two, at least 512. At most 12.5%
/// is wasted, and blocks of slightly varying sizes (experts) can be reused.
int64_t block_size(int64_t bytes);

}  // namespace hexad::device
