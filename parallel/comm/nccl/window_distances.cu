#include "parallel/comm/nccl/window_distances.h"

#include <nccl_device.h>

#include "framework/device/cuda/cuda_check.h"

namespace hexad::comm::nccl {
namespace {

__global__ void distances_kernel(int64_t* distances, ncclWindow_t window, const char* own, int rank, int ranks) {
  const int peer = static_cast<int>(threadIdx.x);
  if (peer >= ranks) return;
  if (peer == rank) own = static_cast<const char*>(ncclGetLocalPointer(window, 0));
  distances[peer] = static_cast<const char*>(ncclGetLsaPointer(window, 0, peer)) - own;
}

}  // namespace

bool is_mapped(ncclWindow_t window) {
  if (!window) return false;
  cudaPointerAttributes attributes{};
  device::cuda::check(cudaPointerGetAttributes(&attributes, window), "querying a window's kind of memory");
  return attributes.type == cudaMemoryTypeDevice;
}

void write_distances(cudaStream_t stream, int64_t* distances, ncclWindow_t window, const void* own, int rank,
                     int ranks) {
  distances_kernel<<<1, ranks, 0, stream>>>(distances, window, static_cast<const char*>(own), rank, ranks);
  device::cuda::check(cudaGetLastError(), "querying the addresses of windows");
}

}  // namespace hexad::comm::nccl
