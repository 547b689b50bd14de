// Memory that a block takes from the system.
#pragma once

#include <cstdint>

namespace hexad::device {

/// Size taken for a block of `bytes`: in eighths of a power of two, at least 512. At most 12.5% are wasted, and blocks
/// of slightly varying sizes (experts) can be reused.
int64_t block_size(int64_t bytes);

}  // namespace hexad::device
