// Replacement of parallel/comm/nccl/window_distances.cu, whose header only nvcc can compile.
#include "parallel/comm/nccl/window_distances.h"

#include "tests/support/cuda_double/nccl_windows.h"
#include "tests/support/cuda_double/stream.h"

namespace hexad::comm::nccl {

bool is_mapped(ncclWindow_t window) { return window && !window->begins.empty(); }

void write_distances(cudaStream_t stream, int64_t* distances, ncclWindow_t window, const void* own, int, int ranks) {
  cuda_double::enqueue(stream, [=] {
    for (int peer = 0; peer < ranks; ++peer) distances[peer] = window->begins[peer] - static_cast<const char*>(own);
  });
}

}  // namespace hexad::comm::nccl
