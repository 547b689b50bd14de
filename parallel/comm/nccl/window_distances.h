// Addresses of the windows that ranks have registered with NCCL.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstdint>

namespace hexad::comm::nccl {

/// True if code on a card can query `window`. If NCCL cannot map the memory of all ranks, `window` is null or, with
/// NCCL 2.28, an address in host memory.
bool is_mapped(ncclWindow_t window);

/// Launches a kernel on `stream` that writes distances[p] = address of rank p's window - `own`, in bytes, for each of
/// `ranks` ranks p. `own` is the address of the window of this rank, whose index is `rank`. All windows must be mapped.
/// distances[rank] is 0 if NCCL numbers the ranks in the same way. NCCL numbers them differently if it cannot map the
/// memory of all ranks. Only code on a card can query the addresses of peers.
void write_distances(cudaStream_t stream, int64_t* distances, ncclWindow_t window, const void* own, int rank,
                     int ranks);

}  // namespace hexad::comm::nccl
