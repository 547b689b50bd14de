// A range of card addresses, parts of which are mapped to pages of memory.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "framework/device/cuda/device_blocks.h"
#include "framework/device/cuda/driver.h"
#include "framework/device/free_ranges.h"

namespace hexad::device::cuda {

/// Allocator of adjacent blocks. A block is placed in the smallest free range that is large enough. grow() maps new
/// pages, after the last block or in a gap before it, if there is no such range. Adjacent free ranges are merged, and
/// free pages anywhere in the segment can be returned to the driver. Therefore blocks of changing sizes, such as routed
/// rows, do not exhaust the card. Not thread-safe.
class Segment {
 public:
  /// `addresses` is the size of the address range and a multiple of `page`. `page` is a multiple of the driver's page
  /// size. Both are in bytes.
  Segment(const Driver& driver, int64_t addresses, int64_t page);
  /// Waits for the last users of the freed memory, and returns all pages and addresses to the driver. All blocks must
  /// have been freed before.
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  struct Taken {
    void* begin;
    Marks former;  // marks that must be passed before the block is used
  };
  /// Allocates a block in mapped free memory. Returns nullopt if no free range is large enough.
  std::optional<Taken> take(int64_t bytes);
  /// Returns the bytes of pages that must be added before take(bytes) can succeed. Throws Error(resource) if the blocks
  /// in use leave no range of addresses that is large enough.
  int64_t missing(int64_t bytes) const;
  /// Adds the pages that take(bytes) needs: missing(bytes) bytes in total. Returns false if the card's memory does not
  /// suffice. In this case, pages that were already added remain. Throws like missing().
  bool grow(int64_t bytes);
  /// Frees a block. The next user of its memory waits for the marks `last`.
  void give(void* begin, int64_t bytes, Marks last);
  bool contains(const void* place) const;
  /// Waits for the last users of all pages that are entirely free, and returns these pages to the driver.
  void give_back_pages();
  /// Returns the bytes of mapped pages.
  int64_t held() const { return held_; }

 private:
  struct Piece {  // one freed range, with the marks of its last users
    int64_t size;
    Marks last;
  };
  struct Gap {
    int64_t begin, missing;  // start of the new block, and bytes of pages to add for it
  };
  Gap best_gap(int64_t bytes) const;
  int64_t missing_in(int64_t begin, int64_t bytes) const;
  Marks cut_pieces(int64_t begin, int64_t bytes);

  const Driver& driver_;
  const int64_t addresses_, page_;
  const CUdeviceptr base_;
  std::vector<std::optional<Driver::Page>> pages_;
  std::map<int64_t, int64_t> used_;  // blocks in use: begin -> size; each begin here and below is an offset from base_
  FreeRanges free_;
  std::map<int64_t, Piece> pieces_;  // free ranges whose last users are known, by their begin
  int64_t held_ = 0;
};

}  // namespace hexad::device::cuda
