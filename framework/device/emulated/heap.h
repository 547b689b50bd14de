// Blocks of the emulated device's memory, and the queues that use them.
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "framework/device/emulated/emulated_queue.h"
#include "framework/device/emulated/mirrored_memory.h"

namespace hexad::device::emulated {

/// Reuses freed blocks in the order of issue, like a card's allocator. A freed block is filled with NaNs. The fill
/// waits for the work that the block's queues launched before the block was freed. A queue that uses the block next
/// waits for the fill. Work that was not announced by touch() may therefore read NaNs. New blocks also contain NaNs.
/// Thread-safe.
class Heap {
 public:
  explicit Heap(int64_t bytes, std::shared_ptr<Queue> cleaner) : memory_(bytes), cleaner_(std::move(cleaner)) {}

  /// Allocates at least `bytes` bytes and returns their host address; nullptr if no memory is left.
  void* allocate(int64_t bytes);
  /// Frees the block that begins at `block`. Throws std::logic_error if no block begins there.
  void free(void* block);
  /// Announces a launch on `queue` that uses the block containing the address `block`. Null and addresses outside the
  /// heap are ignored. Throws std::logic_error for an address in the heap that is not in a block.
  void touch(void* block, const std::shared_ptr<Queue>& queue);
  const MirroredMemory& memory() const { return memory_; }

 private:
  struct Block {
    int64_t size = 0;
    Event clean;                                 // done once the block is filled with NaNs after its previous use
    std::vector<std::shared_ptr<Queue>> queues;  // queues that have announced a use
  };

  const MirroredMemory memory_;
  const std::shared_ptr<Queue> cleaner_;  // waits until the uses of a freed block have ended, then fills the block
  std::mutex mutex_;
  std::map<int64_t, Block> live_;  // blocks in use, by offset
  /// Freed blocks by size: offset, and the event that is done once the block is filled.
  std::map<int64_t, std::vector<std::pair<int64_t, Event>>> cached_;
  int64_t end_ = 0;  // offset of the first byte that no block has used yet
};

}  // namespace hexad::device::emulated
