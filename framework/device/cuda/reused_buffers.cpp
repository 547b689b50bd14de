#include "framework/device/cuda/reused_buffers.h"

#include <algorithm>
#include <bit>

#include "framework/base/error.h"
#include "framework/device/cuda/cuda_check.h"

namespace hexad::device::cuda {
namespace {

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
    // The card has failed. The end of the process frees the rest.
  }
}

std::byte* ReusedBuffers::from_cache(int64_t size) {
  auto& buffers = free_[size];
  const auto it = std::find_if(buffers.begin(), buffers.end(), [](const Free& b) { return passed(b.last); });
  if (it == buffers.end()) return nullptr;
  std::byte* block = it->block;
  buffers.erase(it);
  return block;
}

// Makes room when the limit is reached: waits for the copies of released buffers, and frees these buffers.
std::byte* ReusedBuffers::after_others(int64_t size) {
  for (auto& [its_size, buffers] : free_)
    while (!buffers.empty()) {
      const Free buffer = std::move(buffers.back());
      buffers.pop_back();
      wait(buffer.last);
      if (its_size == size) return buffer.block;
      memory_->free(buffer.block, its_size);
      if (std::byte* block = memory_->allocate(size)) return block;
    }
  return nullptr;
}

std::shared_ptr<std::byte> ReusedBuffers::take(int64_t bytes) {
  constexpr uint64_t least = 4096;
  const auto size = static_cast<int64_t>(std::bit_ceil(std::max(static_cast<uint64_t>(bytes), least)));
  std::byte* block = nullptr;
  {
    std::lock_guard lock(mutex_);
    block = from_cache(size);
    if (!block) block = memory_->allocate(size);
    if (!block) block = after_others(size);
  }
  if (!block)
    base::fail(base::ExitCode::resource, "out of ", memory_->name(), ": a buffer of ", size,
               " bytes is needed for copies, and ", memory_->unavailable_reason());
  blocks_->add(block, size, {});
  return {block, [self = shared_from_this(), size](std::byte* b) { self->give_back(b, size); }};
}

void ReusedBuffers::give_back(std::byte* block, int64_t size) noexcept {
  try {
    Marks last = blocks_->remove(block);
    std::lock_guard lock(mutex_);
    free_[size].push_back({block, std::move(last)});
  } catch (const base::Error&) {
    // The card has failed, and its next use will report that. The lost block no longer matters.
  }
}

}  // namespace hexad::device::cuda
