// Position of a kernel's thread: the language's own names, one each for every thread of the host.
#pragma once

#include <vector_types.h>

// NOLINTBEGIN(readability-identifier-naming)
inline constinit thread_local uint3 threadIdx{}, blockIdx{};
inline constinit thread_local dim3 blockDim{}, gridDim{};
// NOLINTEND(readability-identifier-naming)
