#include "framework/device/allocator.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <span>
#include <tuple>

#include <fmt/format.h>

#include "framework/base/error.h"
#include "framework/base/ordinal.h"
#include "framework/base/units.h"

namespace hexad::device {
namespace {

constexpr size_t alignment = 64;
// Bytes of padding after each block, because matrix products prefetch up to one vector beyond the end of a block.
constexpr int64_t slack = 64;

}  // namespace

int64_t block_size(int64_t bytes) {
  if (bytes <= 512) return 512;
  const int64_t step = int64_t{1} << (std::bit_width(static_cast<uint64_t>(bytes - 1)) - 1) >> 3;
  return (bytes + step - 1) / step * step;
}

std::string_view name_of(Category category) {
  constexpr std::string_view names[] = {"parameter", "gradient",      "optimizer",  "activation",
                                        "temporary", "communication", "connection", "offload"};
  return names[base::ordinal(category)];
}

std::string MemoryStats::table() const {
  std::string text;
  const auto add = [&](std::string_view name, int64_t in_use, int64_t highest) {
    text += fmt::format("  {:<14}{:>8} in use, peak {:>8}\n", name, base::human_bytes(static_cast<double>(in_use)),
                        base::human_bytes(static_cast<double>(highest)));
  };
  for (int c = 0; c < category_count; ++c) add(name_of(static_cast<Category>(c)), used[c], peak[c]);
  add("total", total, peak_total);
  if (peak_held) add("held", held, peak_held);
  return text;
}

double MemoryStats::fragmentation() const {
  return peak_held ? 1 - static_cast<double>(peak_total) / static_cast<double>(peak_held) : 0;
}

void Allocator::hold(int64_t bytes) {
  stats_.held = bytes + accounted_;
  stats_.peak_held = std::max(stats_.peak_held, stats_.held);
}

void Allocator::count_locked(int64_t bytes, Category category) {
  add_locked(bytes, category);
  if (listing_ == Live::not_listed) return;
  const auto live = live_.try_emplace({std::abs(bytes), category}).first;
  live->second += bytes < 0 ? -1 : 1;
  if (live->second == 0) live_.erase(live);
}

void Allocator::add_locked(int64_t bytes, Category category) {
  const size_t c = base::ordinal(category);
  stats_.used[c] += bytes;
  stats_.peak[c] = std::max(stats_.peak[c], stats_.used[c]);
  if (category == Category::offload) return;
  stats_.total += bytes;
  stats_.peak_total = std::max(stats_.peak_total, stats_.total);
}

std::string Allocator::largest_blocks() const {
  std::vector<std::pair<Size, int64_t>> blocks;
  {
    std::lock_guard lock(mutex_);
    blocks.assign(live_.begin(), live_.end());
  }
  const auto rank = [](const auto& b) {
    return std::tuple(-b.first.bytes * b.second, b.first.bytes, b.first.category);
  };
  std::sort(blocks.begin(), blocks.end(), [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  std::string text;
  for (const auto& [size, number] : std::span(blocks).first(std::min<size_t>(blocks.size(), 8)))
    text += fmt::format("{}  {} x {} {}", text.empty() ? "" : "\n", number,
                        base::human_bytes(static_cast<double>(size.bytes)), name_of(size.category));
  return text;
}

void Allocator::count(int64_t bytes, Category category) {
  std::lock_guard lock(mutex_);
  count_locked(bytes, category);
}

void Allocator::recategorise(int64_t bytes, Category from, Category to) {
  if (bytes == 0) return;  // a request of 0 bytes allocates no block
  std::lock_guard lock(mutex_);
  count_locked(-bytes, from);
  count_locked(bytes, to);
}

void Allocator::account(int64_t bytes, Category category) {
  std::lock_guard lock(mutex_);
  add_locked(bytes, category);
  const int64_t own = stats_.held - accounted_;
  accounted_ += bytes;
  if (measuring_ == Held::measured) hold(own);
}

MemoryStats Allocator::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

void Allocator::reset_peaks() {
  std::lock_guard lock(mutex_);
  stats_.peak = stats_.used;
  stats_.peak_total = stats_.total;
  stats_.peak_held = stats_.held;
}

void Allocator::refuse(std::string_view memory, int64_t bytes, Category category, int64_t limit) const {
  base::fail(base::ExitCode::resource, memory, ": ", name_of(category), " block of ", bytes, " bytes",
             limit ? base::cat(" does not fit under the limit of ", limit, " bytes") : " cannot be allocated",
             "; in use:\n", stats().table(), "largest blocks:\n", largest_blocks());
}

CachingAllocator::~CachingAllocator() { trim_locked(); }

void* CachingAllocator::allocate(int64_t bytes, Category category) {
  if (bytes == 0) return nullptr;
  const int64_t size = block_size(bytes);
  void* block = nullptr;
  bool within_limit = true;
  {
    std::lock_guard lock(mutex_);
    if (auto it = cached_.find(size); it != cached_.end() && !it->second.empty()) {
      block = it->second.back();
      it->second.pop_back();
    } else {
      const auto fits = [&] { return !limit_ || held_ + accounted() + size <= limit_; };
      if (!fits()) trim_locked();
      const auto take = [&] { return std::aligned_alloc(alignment, (size + slack + 63) / 64 * 64); };
      within_limit = fits();
      if (within_limit) {
        block = take();
        if (!block && !cached_.empty()) {
          trim_locked();
          block = take();
        }
      }
      if (block) held_ += size;
    }
  }
  if (!block) refuse("out of memory", bytes, category, within_limit ? 0 : limit_);
  count(bytes, category);
  if (poison_) std::memset(block, 0xff, bytes);  // a float with all bits set is NaN
  return block;
}

void CachingAllocator::deallocate(void* block, int64_t bytes, Category category) {
  if (!block) return;
  count(-bytes, category);
  std::lock_guard lock(mutex_);
  cached_[block_size(bytes)].push_back(block);
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
