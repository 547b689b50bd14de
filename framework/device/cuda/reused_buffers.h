// Buffers for copies that the host does not take part in.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "framework/device/cuda/device_blocks.h"
#include "framework/device/cuda/raw_memory.h"

namespace hexad::device::cuda {

/// Lives in a shared_ptr: the buffers hold it. Thread-safe.
class ReusedBuffers : public std::enable_shared_from_this<ReusedBuffers> {
 public:
  ReusedBuffers(std::shared_ptr<Blocks> blocks, std::shared_ptr<RawMemory> memory)
      : blocks_(std::move(blocks)), memory_(std::move(memory)) {}
  ~ReusedBuffers();
  ReusedBuffers(const ReusedBuffers&) = delete;
  ReusedBuffers& operator=(const ReusedBuffers&) = delete;

  /// At least `bytes` bytes. Once let go, a buffer is used again when the copies that touched it are done. Throws
  /// Error(resource) when there is no more.
  std::shared_ptr<std::byte> take(int64_t bytes);

 private:
  struct Free {
    std::byte* block;
    Marks last;
  };
  std::byte* from_cache(int64_t size);
  std::byte* after_others(int64_t size);
  void give_back(std::byte* block, int64_t size) noexcept;

  const std::shared_ptr<Blocks> blocks_;
  const std::shared_ptr<RawMemory> memory_;
  std::mutex mutex_;
  std::map<int64_t, std::vector<Free>> free_;  // by size
};

}  // namespace hexad::device::cuda
