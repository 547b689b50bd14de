// Number of heap bytes in use. Programs that link counted_heap.cpp use its operators new and delete, which count bytes.
// Allocations by malloc() and allocations with extended alignment are not counted.
#pragma once

#include <cstdint>

namespace hexad::bench {

/// Returns the number of bytes in use.
int64_t heap_bytes();
/// Returns the maximum number of bytes in use since the last call of restart_peak().
int64_t heap_peak();
/// Sets the peak to the number of bytes in use.
void restart_peak();

}  // namespace hexad::bench
