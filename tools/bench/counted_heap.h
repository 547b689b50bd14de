// Counts of the bytes that operator new has given out. Programs that link counted_heap.cpp use its operators.
#pragma once

#include <cstdint>

namespace hexad::bench {

/// Returns the bytes in use.
int64_t heap_bytes();
/// Returns the most bytes in use since the last call of restart_peak().
int64_t heap_peak();
void restart_peak();

}  // namespace hexad::bench
