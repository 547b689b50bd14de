#include "framework/device/cuda/pinned_allocator.h"

#include <limits>

#include "framework/base/error.h"

namespace hexad::device::cuda {
namespace {

constexpr int64_t page = 4096;
constexpr int64_t any_size = std::numeric_limits<int64_t>::max();

int64_t rounded(int64_t bytes) { return (block_size(bytes) + page - 1) / page * page; }

}  // namespace

PinnedAllocator::~PinnedAllocator() {
  try {
    trim();
  } catch (const base::Error&) {
    // The card has failed. The remaining memory is freed when the process ends.
  }
}

std::optional<PinnedAllocator::Free> PinnedAllocator::from_cache(int64_t size, int64_t most) {
  const auto it = cached_.lower_bound(size);
  if (it == cached_.end() || it->first > most) return {};
  Free block = std::move(it->second.back());
  it->second.pop_back();
  size_of_[block.begin] = it->first;
  if (it->second.empty()) cached_.erase(it);
  return block;
}

void PinnedAllocator::trim() {
  for (auto& [size, blocks] : cached_)
    for (const Free& block : blocks) {
      for (const auto& mark : block.last) mark->wait();
      memory_->free(block.begin, size);
    }
  cached_.clear();
}

void* PinnedAllocator::allocate(int64_t bytes, Category category) {
  if (bytes == 0) return nullptr;
  const int64_t size = rounded(bytes);
  std::optional<Free> block;
  {
    std::lock_guard lock(mutex_);
    block = from_cache(size, size + size / 8);
    const auto fresh = [&] {
      if (std::byte* begin = memory_->allocate(size)) block = Free{begin, {}}, size_of_[begin] = size;
    };
    if (!block) fresh();
    if (!block && memory_->is_kept()) block = from_cache(size, any_size);
    if (!block && !memory_->is_kept() && !cached_.empty()) {
      trim();
      fresh();
    }
  }
  if (!block)
    base::fail(base::ExitCode::resource, "out of page-locked host memory: a block of ", bytes, " bytes (",
               name_of(category), ") is needed, but ", memory_->unavailable_reason(size), "; in use:\n",
               stats().table(), "largest blocks:\n", largest_blocks());
  blocks_->add(block->begin, size, std::move(block->last));
  count(bytes, category);
  return block->begin;
}

void PinnedAllocator::deallocate(void* block, int64_t bytes, Category category) {
  if (!block) return;
  count(-bytes, category);
  try {
    Marks last = blocks_->remove(block);
    std::lock_guard lock(mutex_);
    const auto it = size_of_.find(block);
    cached_[it->second].push_back({static_cast<std::byte*>(block), std::move(last)});
    size_of_.erase(it);
  } catch (const base::Error&) {
    // The card has failed, and its next use reports the error. The lost block no longer matters.
  }
}

}  // namespace hexad::device::cuda
