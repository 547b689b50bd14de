// Waits of host threads for the CUDA double, counted by name.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace hexad::cuda_double {

/// Function that returns the name of the calling thread's current wait; empty if the wait has no name.
using WaitName = std::string (*)();
/// Sets the function that names all later waits. Null: waits have no names.
void name_host_waits_by(WaitName name);
/// Counts a call of a runtime function that always waits: cudaEventSynchronize, cudaStreamSynchronize, or a function
/// that waits for the whole device (cudaDeviceSynchronize, cudaMemset, cudaFree, cudaFreeHost). A call counts even if
/// nothing is left to wait for. A call without a name counts as "unnamed FUNCTION". Calls that need not wait on
/// hardware do not count. They allocate memory, load a kernel, make a plan of cuDNN, destroy a stream or connect NCCL's
/// ranks.
void count_host_wait(const char* function);
/// Returns the number of waits of all threads by name, since the last call of this function.
std::map<std::string, int64_t> take_host_waits();

}  // namespace hexad::cuda_double
