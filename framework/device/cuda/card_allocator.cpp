#include "framework/device/cuda/card_allocator.h"

#include <algorithm>

#include "framework/base/error.h"
#include "framework/device/cuda/check.h"

namespace hexad::device::cuda {
namespace {

constexpr int64_t alignment = 512;
constexpr int64_t large = int64_t{1} << 20;       // bytes of a block
constexpr int64_t large_page = int64_t{8} << 20;  // less is asked of the driver too often

int64_t round_up(int64_t bytes, int64_t step) { return (bytes + step - 1) / step * step; }

bool lasts(Category category) {
  return category == Category::parameter || category == Category::gradient || category == Category::optimizer;
}

}  // namespace

CardAllocator::CardAllocator(std::shared_ptr<Blocks> blocks, const Options& options)
    : options_(options),
      driver_(options.ordinal),
      blocks_(std::move(blocks)),
      cleaner_(options.poison ? std::make_shared<Queue>(options.ordinal, 0) : nullptr),
      small_(driver_, options.addresses, driver_.page()),
      lasting_(driver_, options.addresses, round_up(large_page, driver_.page())),
      passing_(driver_, options.addresses, round_up(large_page, driver_.page())) {}

int64_t CardAllocator::held() const { return small_.held() + lasting_.held() + passing_.held(); }

Segment& CardAllocator::segment_for(int64_t size, Category category) {
  return size < large ? small_ : lasts(category) ? lasting_ : passing_;
}

std::optional<Segment::Taken> CardAllocator::take(Segment& segment, int64_t size) {
  if (auto taken = segment.take(size)) return taken;
  const bool allowed = options_.limit == 0 || held() + segment.missing(size) <= options_.limit;
  return allowed && segment.grow(size) ? segment.take(size) : std::nullopt;
}

void* CardAllocator::allocate(int64_t bytes, Category category) {
  if (bytes == 0) return nullptr;
  const int64_t size = round_up(bytes, alignment);
  std::optional<Segment::Taken> taken;
  {
    std::lock_guard lock(mutex_);
    Segment& segment = segment_for(size, category);
    taken = take(segment, size);
    if (!taken) {
      for (Segment* s : segments_) s->give_back_pages();
      taken = take(segment, size);
    }
    hold(held());
  }
  if (!taken)
    base::fail(base::ExitCode::resource, "out of memory of the card: ", name_of(category), " block of ", bytes,
               " bytes", options_.limit ? base::cat(" exceeds the limit of ", options_.limit, " bytes") : "",
               "; in use:\n", stats().table(), "largest blocks:\n", largest_blocks());
  if (cleaner_) taken->former = poison(taken->begin, size, taken->former);
  blocks_->add(taken->begin, size, std::move(taken->former));
  count(bytes, category);
  return taken->begin;
}

// All ones is a NaN in every float type.
Marks CardAllocator::poison(void* block, int64_t size, const Marks& former) {
  for (const auto& mark : former) cleaner_->wait(*mark);
  check(cudaMemsetAsync(block, 0xff, static_cast<size_t>(size), cleaner_->handle()), "poisoning memory");
  return {cleaner_->record()};
}

void CardAllocator::deallocate(void* block, int64_t bytes, Category category) {
  if (!block) return;
  count(-bytes, category);
  try {
    Marks last = blocks_->remove(block);
    std::lock_guard lock(mutex_);
    for (Segment* s : segments_)
      if (s->contains(block)) s->give(block, round_up(bytes, alignment), std::move(last));
  } catch (const base::Error&) {
    // The card has failed, which whoever uses it next will say; a block less matters no more.
  }
}

}  // namespace hexad::device::cuda
