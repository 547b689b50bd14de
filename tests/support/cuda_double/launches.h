// Counts of launches on streams of the CUDA double, by name.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace hexad::cuda_double {

using LaunchCounts = std::map<std::string, int64_t, std::less<>>;

/// Counts a launch. A kernel counts under its op's name. An asynchronous copy or fill, or a product of cuBLASLt, counts
/// under the name of the called function. Operations that the double computes without a kernel do not count. These
/// are radix sorts, cuDNN's attention, the distances of NCCL's windows, and grouped products on tensor cores. "grouped
/// swiglu" is a kernel also on the double, and counts. NCCL's operations do not count here (nccl_launches()).
void count_launch(std::string_view name);
/// Records the number of blocks of a kernel's launch.
void note_blocks(std::string_view name, int64_t blocks);
/// Returns the number of blocks of the last launch of the kernel `name`; 0 if there was none.
int64_t last_blocks(std::string_view name);
/// Returns the number of launches of all threads by name, since the last call of this function.
LaunchCounts take_launches();

}  // namespace hexad::cuda_double
