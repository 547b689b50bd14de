// A range of the card's addresses, with pages mapped at the parts that are or were in use.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "framework/device/cuda/device_blocks.h"
#include "framework/device/cuda/driver.h"
#include "framework/device/free_ranges.h"

namespace hexad::device::cuda {

/// Allocates adjacent blocks. Free neighbours are merged, and a block comes from the smallest free range that is large
/// enough. If there is none, the segment grows by pages, at its end or in a gap. Free pages anywhere can be returned to
/// the driver. Therefore blocks of changing sizes, such as those of routed rows, do not use up the card. Not
/// thread-safe.
class Segment {
 public:
  /// `addresses` and `page` are in bytes. `addresses` is a multiple of `page`, and `page` of the driver's page.
  Segment(const Driver& driver, int64_t addresses, int64_t page);
  /// Waits for the last users of the freed memory. All blocks must have been freed.
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  struct Taken {
    void* begin;
    Marks former;  // marks to wait for before use
  };
  /// Takes a block from mapped free memory. Returns nullopt if no free range is large enough.
  std::optional<Taken> take(int64_t bytes);
  /// Returns the bytes of pages to add so that take(bytes) succeeds.
  int64_t missing(int64_t bytes) const;
  /// Adds pages of `bytes` bytes. Returns false if the card has too few; the pages found are added nevertheless.
  bool grow(int64_t bytes);
  /// Frees a block. Its memory may be reused once the queues have passed `last`.
  void give(void* begin, int64_t bytes, Marks last);
  bool contains(const void* place) const;
  /// Waits until whole free pages are no longer in use, and returns them to the driver.
  void give_back_pages();
  /// Returns the bytes of mapped pages.
  int64_t held() const { return held_; }

 private:
  struct Piece {  // a range of free memory, as it was freed
    int64_t size;
    Marks last;
  };
  struct Gap {
    int64_t begin, missing;  // start of the growth, and bytes to add
  };
  Gap best_gap(int64_t bytes) const;
  int64_t missing_in(int64_t begin, int64_t bytes) const;
  Marks cut_pieces(int64_t begin, int64_t bytes);

  const Driver& driver_;
  const int64_t addresses_, page_;
  const CUdeviceptr base_;
  std::vector<std::optional<Driver::Page>> pages_;
  std::map<int64_t, int64_t> used_;  // begin -> size; all are offsets from base_
  FreeRanges free_;
  std::map<int64_t, Piece> pieces_;  // free ranges that had a user
  int64_t held_ = 0;
};

}  // namespace hexad::device::cuda
