#include "framework/device/allocator.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "framework/base/error.h"

namespace hexad::device {
namespace {

constexpr size_t alignment = 64;
// Guard against prefetching products that read up to one vector past the end.
constexpr int64_t slack = 64;

// Eighths of a power of two waste at most 12.5% and let blocks of slightly varying sizes (experts) be reused.
int64_t size_class(int64_t bytes) {
  if (bytes <= 512) return 512;
  const int64_t step = int64_t{1} << (std::bit_width(static_cast<uint64_t>(bytes - 1)) - 1) >> 3;
  return (bytes + step - 1) / step * step;
}

}  // namespace

std::string_view name_of(Category category) {
  constexpr std::string_view names[] = {"parameter", "gradient",      "optimizer", "activation",
                                        "temporary", "communication", "offload"};
  return names[static_cast<size_t>(category)];
}

std::string MemoryStats::table() const {
  std::string text;
  for (int c = 0; c < category_count; ++c)
    text += fmt::format("  {:<14}{:>10.1f} MB in use, peak {:>10.1f} MB\n", name_of(static_cast<Category>(c)),
                        used[static_cast<size_t>(c)] / 1e6, peak[static_cast<size_t>(c)] / 1e6);
  return text + fmt::format("  {:<14}{:>10.1f} MB in use, peak {:>10.1f} MB", "total", total / 1e6, peak_total / 1e6);
}

void Allocator::count_locked(int64_t bytes, Category category) {
  const size_t c = static_cast<size_t>(category);
  stats_.used[c] += bytes;
  stats_.peak[c] = std::max(stats_.peak[c], stats_.used[c]);
  if (category == Category::offload) return;
  stats_.total += bytes;
  stats_.peak_total = std::max(stats_.peak_total, stats_.total);
}

void Allocator::count(int64_t bytes, Category category) {
  std::lock_guard lock(mutex_);
  count_locked(bytes, category);
}

void Allocator::recategorise(int64_t bytes, Category from, Category to) {
  std::lock_guard lock(mutex_);
  count_locked(-bytes, from);
  count_locked(bytes, to);
}

MemoryStats Allocator::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

void Allocator::reset_peaks() {
  std::lock_guard lock(mutex_);
  stats_.peak = stats_.used;
  stats_.peak_total = stats_.total;
}

CachingAllocator::~CachingAllocator() { trim_locked(); }

void* CachingAllocator::allocate(int64_t bytes, Category category) {
  if (bytes == 0) return nullptr;
  const int64_t size = size_class(bytes);
  void* block = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (auto it = cached_.find(size); it != cached_.end() && !it->second.empty()) {
      block = it->second.back();
      it->second.pop_back();
    } else {
      if (limit_ && held_ + size > limit_) trim_locked();
      const auto take = [&] {
        return std::aligned_alloc(alignment, static_cast<size_t>((size + slack + 63) / 64 * 64));
      };
      if (!limit_ || held_ + size <= limit_) {
        block = take();
        if (!block && !cached_.empty()) {
          trim_locked();
          block = take();
        }
      }
      if (block) held_ += size;
    }
  }
  if (!block)
    base::fail(base::ExitCode::resource, "out of memory: ", name_of(category), " block of ", bytes, " bytes",
               limit_ ? base::cat(" exceeds the limit of ", limit_, " bytes") : "", "; in use:\n", stats().table());
  count(bytes, category);
  if (poison_) std::memset(block, 0xff, static_cast<size_t>(bytes));  // all ones is a NaN in every float type
  return block;
}

void CachingAllocator::deallocate(void* block, int64_t bytes, Category category) {
  if (!block) return;
  count(-bytes, category);
  std::lock_guard lock(mutex_);
  cached_[size_class(bytes)].push_back(block);
}

void CachingAllocator::trim() {
  std::lock_guard lock(mutex_);
  trim_locked();
}

void CachingAllocator::trim_locked() {
  for (auto& [size, blocks] : cached_)
    for (void* block : blocks) {
      std::free(block);
      held_ -= size;
    }
  cached_.clear();
}

}  // namespace hexad::device
