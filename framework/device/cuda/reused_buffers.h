// Staging buffers for copies that the card performs asynchronously.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "framework/device/cuda/device_blocks.h"
#include "framework/device/cuda/raw_memory.h"

namespace hexad::device::cuda {

/// Pool of reused buffers. A shared_ptr must own the pool, because the buffers refer to the pool. Thread-safe.
class ReusedBuffers : public std::enable_shared_from_this<ReusedBuffers> {
 public:
  ReusedBuffers(std::shared_ptr<Blocks> blocks, std::shared_ptr<RawMemory> memory)
      : blocks_(std::move(blocks)), memory_(std::move(memory)) {}
  ~ReusedBuffers();
  ReusedBuffers(const ReusedBuffers&) = delete;
  ReusedBuffers& operator=(const ReusedBuffers&) = delete;

  /// Returns a buffer of at least `bytes` bytes. A released buffer is reused once the copies that use it are done.
  /// Throws Error(resource) if no memory is left.
  std::shared_ptr<std::byte> take(int64_t bytes);
  /// Allocates free buffers of 4 KiB to 4 MiB in advance, smallest sizes first, at most `bytes` bytes in total. Most
  /// later calls of take() then need no allocation, which might wait for the card.
  void stock(int64_t bytes);

 private:
  struct Free {
    std::byte* block;
    Marks last;
  };
  struct Taken {
    std::byte* block = nullptr;
    int64_t size = 0;
  };
  Taken from_cache(int64_t size);
  Taken fresh(int64_t size);
  Taken after_others(int64_t size);
  void give_back(std::byte* block, int64_t size) noexcept;

  const std::shared_ptr<Blocks> blocks_;
  const std::shared_ptr<RawMemory> memory_;
  std::mutex mutex_;
  std::map<int64_t, std::vector<Free>> free_;  // unused buffers by size
};

}  // namespace hexad::device::cuda
