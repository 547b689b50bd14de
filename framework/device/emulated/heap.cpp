#include "framework/device/emulated/heap.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "framework/base/error.h"

namespace hexad::device::emulated {
namespace {

constexpr int64_t alignment = 512;  // bytes, as on a card

// Returns `bytes` rounded up to a multiple of a step. The step is 1/8 of the largest power of two below `bytes`, but at
// least `alignment`.
int64_t rounded(int64_t bytes) {
  if (bytes <= alignment) return alignment;
  const int64_t eighth = (int64_t{1} << (std::bit_width(static_cast<uint64_t>(bytes - 1)) - 1)) >> 3;
  const int64_t step = std::max(eighth, alignment);
  return (bytes + step - 1) / step * step;
}

// Waits for the mark. Ignores errors of the work, because other waiters receive them.
void wait_quietly(const DeviceMark& mark) {
  try {
    mark.wait();
  } catch (...) {
  }
}

constexpr int nan_byte = 0xff;  // a float with all bits set is NaN

}  // namespace

void* Heap::allocate(int64_t bytes) {
  const int64_t size = rounded(bytes);
  std::lock_guard lock(mutex_);
  if (auto it = cached_.find(size); it != cached_.end() && !it->second.empty()) {
    auto [offset, clean] = std::move(it->second.back());
    it->second.pop_back();
    live_[offset] = {size, std::move(clean), {}};
    return memory_.host(offset);
  }
  if (end_ + size > memory_.bytes()) return nullptr;
  const int64_t offset = end_;
  end_ += size;
  std::memset(memory_.device(memory_.host(offset)), nan_byte, size);
  live_[offset] = {size, {}, {}};
  return memory_.host(offset);
}

void Heap::free(void* block) {
  std::unique_lock lock(mutex_);
  const auto it = live_.find(memory_.offset(block));
  base::require(it != live_.end(), "[emulated device] free() of ", block,
                ", at which no block begins; expected the first address of a block in use");
  const auto [offset, freed] = *it;
  live_.erase(it);
  if (freed.queues.empty()) return cached_[freed.size].emplace_back(offset, freed.clean), void();
  std::vector<std::shared_ptr<const DeviceMark>> uses;
  for (const auto& queue : freed.queues)
    if (auto use = queue->record(); !use->passed()) uses.push_back(std::move(use));
  if (uses.empty()) {
    lock.unlock();  // the fill needs no lock, because the block is not in live_ or cached_
    std::memset(memory_.device(block), nan_byte, freed.size);
    lock.lock();
    return cached_[freed.size].emplace_back(offset, freed.clean), void();
  }
  cleaner_->launch([uses, begin = memory_.device(block), size = freed.size] {
    for (const auto& use : uses) wait_quietly(*use);
    std::memset(begin, nan_byte, size);
  });
  cached_[freed.size].emplace_back(offset, Event::at(cleaner_->record()));
}

void Heap::touch(void* place, const std::shared_ptr<Queue>& queue) {
  if (!place || !memory_.contains(place)) return;
  std::lock_guard lock(mutex_);
  auto it = live_.upper_bound(memory_.offset(place));
  base::require(it != live_.begin(), "[emulated device] work on memory at ", place,
                ", outside every block; expected memory of a block in use");
  Block& block = (--it)->second;
  base::require(memory_.offset(place) < it->first + block.size, "[emulated device] work on memory at ", place,
                ", which was freed; expected memory of a block in use");
  if (std::find(block.queues.begin(), block.queues.end(), queue) != block.queues.end()) return;
  queue->wait(block.clean);
  block.queues.push_back(queue);
}

}  // namespace hexad::device::emulated
