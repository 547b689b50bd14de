// Blocks that are separate allocations of the driver.
#pragma once

#include <cstdint>
#include <map>

#include "framework/device/cuda/driver.h"

namespace hexad::device::cuda {

/// Memory for libraries that register blocks to share them with other cards. Such a library requires that a block is
/// exactly one allocation. The driver allocates and frees every block, in multiples of its page size. Not thread-safe.
class WholeBlocks {
 public:
  explicit WholeBlocks(const Driver& driver) : driver_(driver) {}
  ~WholeBlocks();
  WholeBlocks(const WholeBlocks&) = delete;
  WholeBlocks& operator=(const WholeBlocks&) = delete;

  /// Returns the bytes of pages that a block of `bytes` bytes occupies.
  int64_t size_of(int64_t bytes) const { return (bytes + driver_.page() - 1) / driver_.page() * driver_.page(); }
  /// Allocates a block of size_of(bytes). Returns null if the card has no more memory.
  void* take(int64_t bytes);
  /// Frees a block. All queues must have finished using it.
  void give(void* block);
  /// Returns the total bytes of all blocks.
  int64_t held() const { return held_; }

 private:
  struct Piece {
    int64_t bytes;
    Driver::Page page;
  };
  const Driver& driver_;
  std::map<const void*, Piece> blocks_;
  int64_t held_ = 0;
};

}  // namespace hexad::device::cuda
