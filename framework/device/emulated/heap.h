// Blocks of the emulated device's memory, and the queues that have work on them.
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "framework/device/emulated/emulated_queue.h"
#include "framework/device/emulated/mirrored_memory.h"

namespace hexad::device::emulated {

/// Reuses freed blocks in the order of issue, like a card's allocator. The bytes of a freed block become NaN once the
/// queues that announced its use have passed. The next user of the block waits for that. Work that was not announced
/// reads these NaNs; new blocks contain NaNs too. Thread-safe.
class Heap {
 public:
  explicit Heap(int64_t bytes, std::shared_ptr<Queue> cleaner) : memory_(bytes), cleaner_(std::move(cleaner)) {}

  /// Returns the host's address of at least `bytes` bytes; nullptr if there is no room.
  void* allocate(int64_t bytes);
  void free(void* block);
  /// Announces a launch on `queue` that uses a block. `block` may be anywhere inside the block, or null.
  void touch(void* block, const std::shared_ptr<Queue>& queue);
  const MirroredMemory& memory() const { return memory_; }

 private:
  struct Block {
    int64_t size = 0;
    Event clean;  // passed once the bytes of its last user are NaN
    std::vector<std::shared_ptr<Queue>> queues;
  };

  const MirroredMemory memory_;
  const std::shared_ptr<Queue> cleaner_;  // writes the NaNs
  std::mutex mutex_;
  std::map<int64_t, Block> live_;                                     // by offset
  std::map<int64_t, std::vector<std::pair<int64_t, Event>>> cached_;  // by size: offset, event after which it is clean
  int64_t end_ = 0;
};

}  // namespace hexad::device::emulated
