// How much memory a block takes from the system.
#pragma once

#include <cstdint>

namespace hexad::device {

/// Of a block of so many bytes: eighths of a power of two, at least 512. At most 12.5% are wasted, and blocks of
/// slightly varying sizes (experts) can be reused.
int64_t block_size(int64_t bytes);

}  // namespace hexad::device
