#include "framework/data/byte_ranges.h"

#include <algorithm>
#include <limits>

namespace hexad::data {

ByteRanges ByteRanges::everything() {
  ByteRanges all;
  all.add(0, std::numeric_limits<size_t>::max());
  return all;
}

void ByteRanges::add(size_t begin, size_t end) {
  if (end <= begin) return;
  if (!ranges_.empty() && begin <= ranges_.back().end) {
    ranges_.back().end = std::max(ranges_.back().end, end);
  } else {
    ranges_.push_back({begin, end});
  }
}

bool ByteRanges::contains(size_t begin, size_t end) const {
  const auto range = from(begin);
  return range != ranges_.end() && range->begin <= begin && end <= range->end;
}

bool ByteRanges::overlaps(size_t begin, size_t end) const {
  const auto range = from(begin);
  return begin < end && range != ranges_.end() && range->begin < end;
}

ByteRanges ByteRanges::slice(size_t begin, size_t end) const {
  ByteRanges part;
  for (auto range = from(begin); range != ranges_.end() && range->begin < end; ++range)
    part.add(std::max(range->begin, begin) - begin, std::min(range->end, end) - begin);
  return part;
}

std::vector<ByteRange>::const_iterator ByteRanges::from(size_t at) const {
  return std::ranges::upper_bound(ranges_, at, {}, &ByteRange::end);
}

}  // namespace hexad::data
