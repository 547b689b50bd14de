#include "framework/device/meta/meta_memory.h"

#include <cstring>
#include <iterator>

#include "framework/base/error.h"
#include "framework/device/block_size.h"

namespace hexad::device {
namespace {

std::uintptr_t number(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

}  // namespace

void* MetaMemory::reserve(int64_t bytes) {
  const std::uintptr_t begin = next_;
  next_ += static_cast<std::uintptr_t>(block_size(bytes));
  blocks_.emplace_hint(blocks_.end(), begin, Block{bytes, nullptr});
  return reinterpret_cast<void*>(begin);
}

void MetaMemory::release(void* block) {
  const auto at = blocks_.find(number(block));
  forget(at->second);
  blocks_.erase(at);
}

bool MetaMemory::contains(const void* address) const { return number(address) >= first; }

MetaMemory::Blocks::iterator MetaMemory::around(const void* address) {
  const auto after = blocks_.upper_bound(number(address));
  base::require(after != blocks_.begin(), "[meta device] no block is at the address ", number(address));
  const auto at = std::prev(after);
  base::require(number(address) < at->first + static_cast<std::uintptr_t>(at->second.bytes),
                "[meta device] the address ", number(address), " is behind its block's end");
  return at;
}

std::byte* MetaMemory::known(const void* address) {
  const auto at = around(address);
  return at->second.known ? at->second.known.get() + (number(address) - at->first) : nullptr;
}

std::byte* MetaMemory::remember(const void* address) {
  const auto at = around(address);
  Block& block = at->second;
  if (!block.known) {
    std::vector<Bytes>& spare = spare_[block.bytes];
    if (spare.empty()) {
      block.known = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(block.bytes));
    } else {
      block.known = std::move(spare.back());
      spare.pop_back();
    }
    std::memset(block.known.get(), 0, static_cast<size_t>(block.bytes));
  }
  return block.known.get() + (number(address) - at->first);
}

void MetaMemory::forget(Block& block) {
  if (block.known) spare_[block.bytes].push_back(std::move(block.known));
}

void MetaMemory::forget(const void* address) { forget(around(address)->second); }

}  // namespace hexad::device
