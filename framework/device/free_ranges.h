// Free parts of a file or of an address range.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace hexad::device {

/// Free ranges, joined with their neighbours. Takes elements from the begin of the smallest range that is large enough;
/// the rest of that range stays free. Time grows with the logarithm of the number of ranges.
class FreeRanges {
 public:
  /// The begin of `size` free elements; nothing: no range has as many.
  std::optional<int64_t> take(int64_t size);
  /// Frees the `size` elements from `begin` on, which must not be free.
  void give(int64_t begin, int64_t size);
  /// Takes exactly these elements, which must be free.
  void take(int64_t begin, int64_t size);
  /// begin -> size.
  const std::map<int64_t, int64_t>& ranges() const { return by_begin_; }
  /// The begin of the range that reaches up to `end`, which is taken whole; `end` where there is none.
  int64_t take_tail(int64_t end);

 private:
  using ByBegin = std::map<int64_t, int64_t>;  // begin -> size
  void remove(ByBegin::iterator range);

  ByBegin by_begin_;
  std::set<std::pair<int64_t, int64_t>> by_size_;  // (size, begin)
};

}  // namespace hexad::device
