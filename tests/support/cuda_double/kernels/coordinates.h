// Position of a kernel's thread, and sizes of its block and grid, under the names of CUDA C++. Every host thread has
// its own values.
#pragma once

#include <vector_types.h>

// NOLINTBEGIN(readability-identifier-naming)
inline constinit thread_local uint3 threadIdx{}, blockIdx{};
inline constinit thread_local dim3 blockDim{}, gridDim{};
// NOLINTEND(readability-identifier-naming)
