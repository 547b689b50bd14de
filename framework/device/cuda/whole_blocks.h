// Blocks that are each one piece of the card's memory, at addresses of their own.
#pragma once

#include <cstdint>
#include <map>

#include "framework/device/cuda/driver.h"

namespace hexad::device::cuda {

/// Memory that can be registered with libraries that hand memory to other cards: they take neither a part of a piece
/// nor several. Every block is made and given back by the driver, and takes whole pages. Not thread-safe.
class WholeBlocks {
 public:
  explicit WholeBlocks(const Driver& driver) : driver_(driver) {}
  ~WholeBlocks();
  WholeBlocks(const WholeBlocks&) = delete;
  WholeBlocks& operator=(const WholeBlocks&) = delete;

  /// Bytes that a block of `bytes` takes.
  int64_t size_of(int64_t bytes) const { return (bytes + driver_.page() - 1) / driver_.page() * driver_.page(); }
  /// Null: the card has no more.
  void* take(int64_t bytes);
  /// Gives back a block that nobody uses any more.
  void give(void* block);
  /// Bytes of all blocks.
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
