// Function that appends a test's work to a queue of the CUDA backend.
#pragma once

#include <functional>
#include <utility>

#include "framework/device/cuda/queue.h"
#include "tests/support/cuda_double/stream.h"

namespace hexad::cuda_double {

/// Appends `work` to `queue`, like a launch of the backend.
inline void append(device::cuda::Queue& queue, std::function<void()> work) {
  const auto handle = queue.handle();
  enqueue(handle.get(), std::move(work));
}

}  // namespace hexad::cuda_double
