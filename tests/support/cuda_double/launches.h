// Counts of launches on streams of the CUDA double, by name.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace hexad::cuda_double {

using LaunchCounts = std::map<std::string, int64_t, std::less<>>;

/// Counts a launch. A kernel counts under its op's name. An asynchronous copy or fill, or a product of cuBLASLt, counts
/// under the name of the called function. The double computes grouped products on tensor cores except "grouped swiglu",
/// cuDNN's attention, radix sorts and the distances of NCCL's windows without kernels, so these operations do not
/// count. NCCL's operations do not count here either (nccl_launches()).
void count_launch(std::string_view name);
/// Records the number of blocks of a kernel's launch.
void note_blocks(std::string_view name, int64_t blocks);
/// Returns the number of blocks of the last launch of the kernel `name`; 0 if there was none.
int64_t last_blocks(std::string_view name);
/// Returns the number of launches of all threads by name, since the last call of this function.
LaunchCounts take_launches();

}  // namespace hexad::cuda_double
