// Streams of the CUDA double: threads that later run the launched work in order.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

namespace hexad::cuda_double {

/// Appends work to a stream, like a kernel launch, and returns immediately. The work runs later on the stream's thread
/// and may block there. An exception of the work breaks the stream's device (break_device()), like a fault of a kernel.
/// HEXAD_CUDA_DOUBLE_JITTER is a seed for random delays before work starts.
void enqueue(cudaStream_t stream, std::function<void()> work);
/// Waits until all streams of a device have done the work that was appended before. On hardware, cudaMalloc,
/// cudaHostAlloc, the loading of a kernel, the making of a plan of cuDNN and new connections of NCCL may wait in this
/// way. On the double, all of these operations wait in this way.
cudaError_t synchronize_device(int device);
int device_of(cudaStream_t stream);

}  // namespace hexad::cuda_double
