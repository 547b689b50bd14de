// A range of addresses of the card, with pages behind those parts that are in use or were.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "framework/device/cuda/device_blocks.h"
#include "framework/device/cuda/driver.h"
#include "framework/device/free_ranges.h"

namespace hexad::device::cuda {

/// Blocks lie side by side; free neighbours join, and the smallest that is large enough is taken from. Where none is,
/// the segment grows by pages, at its end or in a gap; free pages can be given back from anywhere. So blocks of ever
/// changing sizes, as those of routed rows are, do not eat the card up. Not thread-safe.
class Segment {
 public:
  /// `addresses` and `page` in bytes; one is a multiple of the other, and of the driver's page.
  Segment(const Driver& driver, int64_t addresses, int64_t page);
  /// Waits for the last users of the freed memory; no block may be left.
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  struct Taken {
    void* begin;
    Marks former;  // what its memory must wait for
  };
  /// Takes a block of the memory that is there; nullopt: no free range is large enough.
  std::optional<Taken> take(int64_t bytes);
  /// Pages to add so that take(bytes) succeeds, as bytes.
  int64_t missing(int64_t bytes) const;
  /// Adds pages of `bytes` bytes. Returns false if the card has too few; the pages that it had are added nevertheless.
  bool grow(int64_t bytes);
  /// A taken block, free once `last` have been passed.
  void give(void* begin, int64_t bytes, Marks last);
  bool contains(const void* place) const;
  /// Waits until whole free pages are used no more and gives them back to the driver.
  void give_back_pages();
  /// Bytes of pages.
  int64_t held() const { return held_; }

 private:
  struct Piece {  // of free memory, as it was given
    int64_t size;
    Marks last;
  };
  struct Gap {
    int64_t begin, missing;  // where to grow, by how many bytes
  };
  Gap best_gap(int64_t bytes) const;
  int64_t missing_in(int64_t begin, int64_t bytes) const;
  Marks cut_pieces(int64_t begin, int64_t bytes);

  const Driver& driver_;
  const int64_t addresses_, page_;
  const CUdeviceptr base_;
  std::vector<std::optional<Driver::Page>> pages_;
  std::map<int64_t, int64_t> used_;  // begin -> size; all as offsets from base_
  FreeRanges free_;
  std::map<int64_t, Piece> pieces_;  // of what is free and has had a user
  int64_t held_ = 0;
};

}  // namespace hexad::device::cuda
