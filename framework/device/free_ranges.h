// Free ranges of a file or of an address range.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace hexad::device {

/// Set of free ranges. Adjacent ranges are merged. take() uses the start of the smallest range that is large enough;
/// the rest of that range remains free. Every operation takes time logarithmic in the number of ranges.
class FreeRanges {
 public:
  /// Allocates `size` elements and returns the index of the first element; nullopt if no range is large enough.
  std::optional<int64_t> take(int64_t size);
  /// Frees `size` elements from index `begin`. All of them must be in use.
  void give(int64_t begin, int64_t size);
  /// Allocates the `size` elements from index `begin`. All of them must be free.
  void take(int64_t begin, int64_t size);
  /// Returns the free ranges: begin -> size.
  const std::map<int64_t, int64_t>& ranges() const { return by_begin_; }
  /// Allocates the whole free range that ends at `end`. Returns the index of its first element, or `end` if there is no
  /// such range. No free range may be beyond `end`.
  int64_t take_tail(int64_t end);

 private:
  using ByBegin = std::map<int64_t, int64_t>;  // begin -> size of each free range
  void remove(ByBegin::iterator range);

  ByBegin by_begin_;
  std::set<std::pair<int64_t, int64_t>> by_size_;  // (size, begin) of each free range
};

}  // namespace hexad::device
