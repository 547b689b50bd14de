#include "framework/device/free_ranges.h"

#include <iterator>

namespace hexad::device {

std::optional<int64_t> FreeRanges::take(int64_t size) {
  const auto best = by_size_.lower_bound({size, 0});
  if (best == by_size_.end()) return {};
  const auto [found, begin] = *best;
  remove(by_begin_.find(begin));
  if (found > size) give(begin + size, found - size);
  return begin;
}

void FreeRanges::take(int64_t begin, int64_t size) {
  const auto range = std::prev(by_begin_.upper_bound(begin));
  const auto [first, length] = *range;
  remove(range);
  if (begin > first) give(first, begin - first);
  if (const int64_t rest = first + length - (begin + size); rest > 0) give(begin + size, rest);
}

void FreeRanges::give(int64_t begin, int64_t size) {
  int64_t end = begin + size;
  auto next = by_begin_.lower_bound(begin);
  if (next != by_begin_.end() && next->first == end) {
    end += next->second;
    remove(next++);
  }
  if (next != by_begin_.begin())
    if (const auto before = std::prev(next); before->first + before->second == begin) {
      begin = before->first;
      remove(before);
    }
  by_begin_.emplace(begin, end - begin);
  by_size_.emplace(end - begin, begin);
}

int64_t FreeRanges::take_tail(int64_t end) {
  if (by_begin_.empty()) return end;
  const auto last = std::prev(by_begin_.end());
  if (last->first + last->second != end) return end;
  const int64_t begin = last->first;
  remove(last);
  return begin;
}

void FreeRanges::remove(ByBegin::iterator range) {
  by_size_.erase({range->second, range->first});
  by_begin_.erase(range);
}

}  // namespace hexad::device
