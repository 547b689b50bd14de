// Blocks that are each one separate allocation of the card's memory.
#pragma once

#include <cstdint>
#include <map>

#include "framework/device/cuda/driver.h"

namespace hexad::device::cuda {

/// Memory for libraries that register blocks and share them with other cards. These libraries accept neither a part of
/// an allocation nor several allocations. The driver makes and frees every block, in whole pages. Not thread-safe.
class WholeBlocks {
 public:
  explicit WholeBlocks(const Driver& driver) : driver_(driver) {}
  ~WholeBlocks();
  WholeBlocks(const WholeBlocks&) = delete;
  WholeBlocks& operator=(const WholeBlocks&) = delete;

  /// Returns the bytes that a block of `bytes` takes.
  int64_t size_of(int64_t bytes) const { return (bytes + driver_.page() - 1) / driver_.page() * driver_.page(); }
  /// Returns null if the card has no more memory.
  void* take(int64_t bytes);
  /// Frees a block that is no longer in use.
  void give(void* block);
  /// Returns the bytes of all blocks.
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
