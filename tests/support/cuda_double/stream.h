// Streams of the CUDA double: threads that later run the launched work in order.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

namespace hexad::cuda_double {

/// Appends work to a stream, like a kernel launch, and returns immediately. The work runs later on the stream's thread
/// and may block there. If it throws, the error is printed and breaks the stream's device. Then every later call that
/// needs the device returns cudaErrorLaunchFailure, as after a fault of a kernel. HEXAD_CUDA_DOUBLE_JITTER is a seed
/// for random delays before work starts.
void enqueue(cudaStream_t stream, std::function<void()> work);
/// Waits until all streams of a device have done the work so far. On hardware, calls that allocate or free memory, load
/// a kernel or connect NCCL's ranks may wait in this way. On the double, they always do.
cudaError_t synchronize_device(int device);
int device_of(cudaStream_t stream);

}  // namespace hexad::cuda_double
