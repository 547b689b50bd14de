#include "framework/device/cuda/segment.h"

#include <algorithm>
#include <iterator>

#include "framework/base/error.h"

namespace hexad::device::cuda {

Segment::Segment(const Driver& driver, int64_t addresses, int64_t page)
    : driver_(driver), addresses_(addresses), page_(page), base_(driver.reserve(addresses)), pages_(addresses / page) {}

Segment::~Segment() {
  try {
    for (const auto& [begin, piece] : pieces_)
      for (const auto& mark : piece.last) mark->wait();
  } catch (const base::Error&) {
    // The card has failed and no longer accesses memory.
  }
  for (size_t p = 0; p < pages_.size(); ++p)
    if (pages_[p]) driver_.drop(base_ + p * static_cast<size_t>(page_), page_, *pages_[p]);
  driver_.give_back_addresses(base_, addresses_);
}

std::optional<Segment::Taken> Segment::take(int64_t bytes) {
  const std::optional<int64_t> begin = free_.take(bytes);
  if (!begin) return {};
  used_.emplace(*begin, bytes);
  return Taken{reinterpret_cast<void*>(base_ + static_cast<CUdeviceptr>(*begin)), cut_pieces(*begin, bytes)};
}

// Removes [begin, begin + bytes) from the free pieces. Parts of pieces outside this range remain. Returns the marks of
// all pieces that overlap the range.
Marks Segment::cut_pieces(int64_t begin, int64_t bytes) {
  const int64_t end = begin + bytes;
  Marks marks;
  auto it = pieces_.upper_bound(begin);
  if (it != pieces_.begin() && std::prev(it)->first + std::prev(it)->second.size > begin) --it;
  while (it != pieces_.end() && it->first < end) {
    const int64_t from = it->first, to = from + it->second.size;
    const Piece piece = std::move(it->second);
    it = pieces_.erase(it);
    if (from < begin) pieces_.emplace(from, Piece{begin - from, piece.last});
    if (to > end) it = pieces_.emplace(end, Piece{to - end, piece.last}).first;
    for (const auto& mark : piece.last)
      if (std::find(marks.begin(), marks.end(), mark) == marks.end()) marks.push_back(mark);
  }
  return marks;
}

int64_t Segment::missing_in(int64_t begin, int64_t bytes) const {
  int64_t missing = 0;
  for (int64_t p = begin / page_; p * page_ < begin + bytes; ++p)
    if (!pages_[p]) missing += page_;
  return missing;
}

// Returns the gap that needs the fewest new pages for a block of `bytes` bytes: before, between or after the blocks in
// use. If several gaps need equally many pages, returns the first of them.
Segment::Gap Segment::best_gap(int64_t bytes) const {
  Gap best{-1, 0};
  int64_t begin = 0;
  const auto consider = [&](int64_t end) {
    if (end - begin < bytes) return;
    const int64_t missing = missing_in(begin, bytes);
    if (best.begin < 0 || missing < best.missing) best = {begin, missing};
  };
  for (const auto& [first, size] : used_) {
    consider(first);
    begin = first + size;
  }
  consider(addresses_);
  if (best.begin < 0)
    base::fail(base::ExitCode::resource, "[cuda] a segment with addresses for ", addresses_,
               " bytes has no free range of ", bytes, " bytes");
  return best;
}

int64_t Segment::missing(int64_t bytes) const { return best_gap(bytes).missing; }

bool Segment::grow(int64_t bytes) {
  const int64_t begin = best_gap(bytes).begin;
  for (int64_t p = begin / page_; p * page_ < begin + bytes; ++p) {
    auto& page = pages_[p];
    if (page) continue;
    Driver::Page fresh{};
    if (!driver_.map(base_ + static_cast<CUdeviceptr>(p * page_), page_, fresh)) return false;
    page = fresh;
    held_ += page_;
    free_.give(p * page_, page_);
  }
  return true;
}

void Segment::give(void* block, int64_t bytes, Marks last) {
  const int64_t begin = static_cast<int64_t>(reinterpret_cast<CUdeviceptr>(block) - base_);
  used_.erase(begin);
  free_.give(begin, bytes);
  if (!last.empty()) pieces_.emplace(begin, Piece{bytes, std::move(last)});
}

bool Segment::contains(const void* place) const {
  const auto address = reinterpret_cast<CUdeviceptr>(place);
  return address >= base_ && address < base_ + static_cast<CUdeviceptr>(addresses_);
}

void Segment::give_back_pages() {
  const std::map<int64_t, int64_t> ranges = free_.ranges();
  for (const auto& [begin, size] : ranges) {
    const int64_t first = (begin + page_ - 1) / page_, last = (begin + size) / page_;
    if (first >= last) continue;
    for (const auto& mark : cut_pieces(first * page_, (last - first) * page_)) mark->wait();
    free_.take(first * page_, (last - first) * page_);
    for (int64_t p = first; p < last; ++p) {
      auto& page = pages_[p];
      driver_.unmap(base_ + static_cast<CUdeviceptr>(p * page_), page_, *page);
      page.reset();
      held_ -= page_;
    }
  }
}

}  // namespace hexad::device::cuda
