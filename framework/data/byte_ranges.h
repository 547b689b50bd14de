// Ranges of bytes in a text.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace hexad::data {

/// Bytes [begin, end) of a text.
struct ByteRange {
  size_t begin = 0, end = 0;

  bool operator==(const ByteRange&) const = default;
};

/// Ascending ranges of bytes that neither overlap nor touch.
class ByteRanges {
 public:
  ByteRanges() = default;
  /// Returns one range that contains every byte of any text.
  static ByteRanges everything();

  /// Adds bytes [begin, end), or nothing if `end` is at most `begin`. Joins these bytes with the last range if `begin`
  /// is at most the end of the last range. `begin` must be at least the beginning of the last range.
  void add(size_t begin, size_t end);
  bool empty() const { return ranges_.empty(); }
  std::span<const ByteRange> ranges() const { return ranges_; }
  /// True if one range contains all bytes [begin, end).
  bool contains(size_t begin, size_t end) const;
  /// True if a range contains at least one of the bytes [begin, end).
  bool overlaps(size_t begin, size_t end) const;
  /// Returns the parts of the ranges within bytes [begin, end), counted from `begin`.
  ByteRanges slice(size_t begin, size_t end) const;

 private:
  // Returns the first range that ends after byte `at`.
  std::vector<ByteRange>::const_iterator from(size_t at) const;

  std::vector<ByteRange> ranges_;
};

}  // namespace hexad::data
