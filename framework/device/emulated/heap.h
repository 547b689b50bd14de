// Blocks of the emulated device's memory, and which queues have work on them.
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "framework/device/emulated/emulated_queue.h"
#include "framework/device/emulated/mirrored_memory.h"

namespace hexad::device::emulated {

/// Freed blocks are reused in the order of issue, as a card's are: their bytes become NaN once the queues that were
/// told to touch them have passed, and the next user of the block waits for that. Work that was not told of finds the
/// NaNs, as it does in new blocks. Thread-safe.
class Heap {
 public:
  explicit Heap(int64_t bytes, std::shared_ptr<Queue> cleaner) : memory_(bytes), cleaner_(std::move(cleaner)) {}

  /// At least `bytes` bytes, at the host's address; nullptr when there is no room.
  void* allocate(int64_t bytes);
  void free(void* block);
  /// Work on `block` is about to be launched on `queue`. `block` may be anywhere inside a block, or null.
  void touch(void* block, const std::shared_ptr<Queue>& queue);
  const MirroredMemory& memory() const { return memory_; }

 private:
  struct Block {
    int64_t size = 0;
    Event clean;  // its last user's bytes are gone
    std::vector<std::shared_ptr<Queue>> queues;
  };

  const MirroredMemory memory_;
  const std::shared_ptr<Queue> cleaner_;  // writes the NaNs
  std::mutex mutex_;
  std::map<int64_t, Block> live_;                                     // by offset
  std::map<int64_t, std::vector<std::pair<int64_t, Event>>> cached_;  // by size: offset, when clean
  int64_t end_ = 0;
};

}  // namespace hexad::device::emulated
