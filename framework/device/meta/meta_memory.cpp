#include "framework/device/meta/meta_memory.h"

#include <algorithm>
#include <iterator>

#include "framework/base/error.h"
#include "framework/device/allocator.h"

namespace hexad::device {
namespace {

std::uintptr_t number(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

// Returns the first range whose end is at or after `at`.
template <class Ranges>
auto first_from(Ranges& ranges, int64_t at) {
  const auto after = ranges.upper_bound(at);
  return after != ranges.begin() && std::prev(after)->second >= at ? std::prev(after) : after;
}

}  // namespace

void* MetaMemory::reserve(int64_t bytes, Place place) {
  const std::uintptr_t begin = next_;
  next_ += static_cast<std::uintptr_t>(block_size(bytes));
  blocks_.emplace_hint(blocks_.end(), begin, Block{bytes, nullptr, {}, place});
  return reinterpret_cast<void*>(begin);
}

void MetaMemory::release(void* block) {
  const auto at = around(block, 0);
  base::require(at->first == number(block), "[meta device] the address ", number(block),
                " is released, but no block begins there; expected the first address of a block");
  drop_values(at->second);
  blocks_.erase(at);
}

bool MetaMemory::contains(const void* address) const { return number(address) >= first; }

// Returns the last block that begins at or before an address; blocks_.end() if there is none. Checks the latest blocks
// first, because most operations write to the latest blocks, and thousands of older blocks may exist.
MetaMemory::Blocks::iterator MetaMemory::last_from(std::uintptr_t address) {
  constexpr int latest = 4;
  auto at = blocks_.end();
  for (int i = 0; i < latest && at != blocks_.begin(); ++i)
    if ((--at)->first <= address) return at;
  const auto after = blocks_.upper_bound(address);
  return after == blocks_.begin() ? blocks_.end() : std::prev(after);
}

// Returns the block that contains the `bytes` bytes at `address`. Throws std::logic_error if no block contains them.
MetaMemory::Blocks::iterator MetaMemory::around(const void* address, int64_t bytes) {
  const auto at = last_from(number(address));
  base::require(at != blocks_.end(), "[meta device] no block is at the address ", number(address),
                "; expected an address in a block");
  base::require(
      number(address) + static_cast<std::uintptr_t>(bytes) <= at->first + static_cast<std::uintptr_t>(at->second.bytes),
      "[meta device] ", bytes, " bytes at the address ", number(address), " extend beyond ",
      at->first + static_cast<std::uintptr_t>(at->second.bytes),
      ", the end of their block; expected bytes in one block");
  return at;
}

std::byte* MetaMemory::known(const void* address, int64_t bytes) {
  const auto at = around(address, bytes);
  const auto begin = static_cast<int64_t>(number(address) - at->first);
  const auto range = first_from(at->second.known, begin);
  const bool all = range != at->second.known.end() && range->first <= begin && begin + bytes <= range->second;
  return all ? at->second.values.get() + begin : nullptr;
}

std::byte* MetaMemory::remember(const void* address, int64_t bytes) {
  const auto at = around(address, bytes);
  Block& block = at->second;
  if (!block.values) {
    std::vector<Bytes>& spare = spare_[block.bytes];
    if (spare.empty()) {
      block.values = std::make_unique_for_overwrite<std::byte[]>(block.bytes);
    } else {
      block.values = std::move(spare.back());
      spare.pop_back();
    }
  }
  const auto offset = static_cast<int64_t>(number(address) - at->first);
  int64_t begin = offset, end = offset + bytes;
  for (auto r = first_from(block.known, begin); r != block.known.end() && r->first <= end; r = block.known.erase(r))
    begin = std::min(begin, r->first), end = std::max(end, r->second);
  block.known.emplace(begin, end);
  return block.values.get() + offset;
}

void MetaMemory::forget(const void* address, int64_t bytes) {
  const auto at = around(address, bytes);
  Ranges& known = at->second.known;
  const auto begin = static_cast<int64_t>(number(address) - at->first), end = begin + bytes;
  for (auto r = first_from(known, begin); r != known.end() && r->first < end;) {
    const auto [from, to] = *r;
    r = known.erase(r);
    if (from < begin) known.emplace(from, begin);
    if (to > end) known.emplace(end, to);
  }
  if (known.empty()) drop_values(at->second);
}

void MetaMemory::drop_values(Block& block) {
  if (block.values) spare_[block.bytes].push_back(std::move(block.values));
  block.known.clear();
}

}  // namespace hexad::device
