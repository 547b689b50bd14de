// Buffers of page-locked host memory for copies that the host does not take part in.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "framework/device/cuda/cuda_stream.h"

namespace hexad::device::cuda {

/// Lives in a shared_ptr: the buffers hold it. Thread-safe.
class PinnedBuffers : public std::enable_shared_from_this<PinnedBuffers> {
 public:
  explicit PinnedBuffers(std::shared_ptr<Queue> queue) : queue_(std::move(queue)) {}
  ~PinnedBuffers();
  PinnedBuffers(const PinnedBuffers&) = delete;
  PinnedBuffers& operator=(const PinnedBuffers&) = delete;

  /// At least `bytes` bytes. Once let go, a buffer is used again when the queue has come past that point, so that
  /// copies still on their way keep it.
  std::shared_ptr<std::byte> take(int64_t bytes);

 private:
  struct Free {
    std::byte* block;
    std::shared_ptr<const DeviceMark> since;
  };
  void give_back(std::byte* block, int64_t size) noexcept;

  const std::shared_ptr<Queue> queue_;
  std::mutex mutex_;
  std::map<int64_t, std::vector<Free>> free_;  // by size
};

}  // namespace hexad::device::cuda
