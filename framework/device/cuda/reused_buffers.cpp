#include "framework/device/cuda/reused_buffers.h"

#include <algorithm>
#include <bit>

#include "framework/base/error.h"
#include "framework/device/cuda/cuda_check.h"

namespace hexad::device::cuda {
namespace {

constexpr int64_t least = 4096;  // size of the smallest buffer in bytes

// Returns the size of the buffer for a request of `bytes` bytes: a power of two.
int64_t size_for(int64_t bytes) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max(bytes, least))));
}

bool passed(const Marks& marks) {
  return std::all_of(marks.begin(), marks.end(), [](const auto& mark) { return mark->passed(); });
}

void wait(const Marks& marks) {
  for (const auto& mark : marks) mark->wait();
}

}  // namespace

ReusedBuffers::~ReusedBuffers() {
  try {
    for (const auto& [size, buffers] : free_)
      for (const Free& buffer : buffers) wait(buffer.last), memory_->free(buffer.block, size);
  } catch (const base::Error&) {
    // The card has failed. The memory is freed when the process ends.
  }
}

// Removes from the cache a buffer of `size` to max_waste * size bytes whose copies have finished, and returns it. The
// result is empty if there is no such buffer.
ReusedBuffers::Taken ReusedBuffers::from_cache(int64_t size) {
  constexpr int64_t max_waste = 8;
  for (auto it = free_.lower_bound(size); it != free_.end() && it->first <= max_waste * size; ++it) {
    auto& buffers = it->second;
    const auto buffer = std::find_if(buffers.begin(), buffers.end(), [](const Free& b) { return passed(b.last); });
    if (buffer == buffers.end()) continue;
    const Taken taken{buffer->block, it->first};
    buffers.erase(buffer);
    return taken;
  }
  return {};
}

ReusedBuffers::Taken ReusedBuffers::fresh(int64_t size) { return {memory_->allocate(size), size}; }

// Obtains a buffer when no more memory can be allocated. Waits for the copies of a released buffer that is large
// enough, and returns this buffer. If no released buffer is large enough, frees released buffers, after their copies
// have finished, until a new buffer fits; frees none while RawMemory::is_kept(). The result is empty if no buffer was
// obtained.
ReusedBuffers::Taken ReusedBuffers::after_others(int64_t size) {
  const auto release = [](std::vector<Free>& buffers) {
    const Free buffer = std::move(buffers.back());
    buffers.pop_back();
    wait(buffer.last);
    return buffer.block;
  };
  for (auto it = free_.lower_bound(size); it != free_.end(); ++it)
    if (!it->second.empty()) return {release(it->second), it->first};
  if (memory_->is_kept()) return {};
  for (auto& [its_size, buffers] : free_)
    while (!buffers.empty()) {
      memory_->free(release(buffers), its_size);
      if (const Taken taken = fresh(size); taken.block) return taken;
    }
  return {};
}

std::shared_ptr<std::byte> ReusedBuffers::take(int64_t bytes) {
  const int64_t size = size_for(bytes);
  Taken taken;
  {
    std::lock_guard lock(mutex_);
    taken = from_cache(size);
    if (!taken.block) taken = fresh(size);
    if (!taken.block) taken = after_others(size);
  }
  if (!taken.block)
    base::fail(base::ExitCode::resource, "out of ", memory_->name(), ": a buffer of ", size,
               " bytes is needed for copies, but ", memory_->unavailable_reason(size));
  blocks_->add(taken.block, taken.size, {});
  return {taken.block, [self = shared_from_this(), size = taken.size](std::byte* b) { self->give_back(b, size); }};
}

// Allocates 16 buffers of each size up to 512 KiB, and 8 MiB of buffers of each larger size. Stops when another buffer
// would exceed `bytes` or the available memory.
void ReusedBuffers::stock(int64_t bytes) {
  constexpr int64_t largest = int64_t{4} << 20, share = int64_t{8} << 20;
  constexpr int64_t fewest = 2, most = 16;
  std::lock_guard lock(mutex_);
  for (int64_t size = least; size <= largest; size *= 2)
    for (int64_t n = std::clamp(share / size, fewest, most); n > 0 && bytes >= size; --n, bytes -= size) {
      std::byte* const block = memory_->allocate(size);
      if (!block) return;
      free_[size].push_back({block, {}});
    }
}

void ReusedBuffers::give_back(std::byte* block, int64_t size) noexcept {
  try {
    Marks last = blocks_->remove(block);
    std::lock_guard lock(mutex_);
    free_[size].push_back({block, std::move(last)});
  } catch (const base::Error&) {
    // The card has failed, and its next use reports the error. The lost block no longer matters.
  }
}

}  // namespace hexad::device::cuda
