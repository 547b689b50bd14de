// Streams of the CUDA double: threads that do what was launched, some time later, in order.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

namespace hexad::cuda_double {

/// Appends work to a stream, as a kernel launch does: returns at once; the work runs later on the stream's thread and
/// may block there. What it throws is printed and breaks the stream's device: every later call that asks for it returns
/// cudaErrorLaunchFailure, as after a fault of a kernel. HEXAD_CUDA_DOUBLE_JITTER, a seed: work starts late at random.
void enqueue(cudaStream_t stream, std::function<void()> work);
/// Waits until all streams of a device are empty.
cudaError_t synchronize_device(int device);
int device_of(cudaStream_t stream);

}  // namespace hexad::cuda_double
