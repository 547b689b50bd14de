#include "framework/device/cuda/card_allocator.h"

#include <algorithm>

#include "framework/base/error.h"
#include "framework/device/cuda/cuda_check.h"

namespace hexad::device::cuda {
namespace {

constexpr int64_t alignment = 512;
constexpr int64_t large = int64_t{1} << 20;        // smallest block, in bytes, outside the segment of small blocks
constexpr int64_t least_whole = int64_t{4} << 20;  // minimum bytes of a whole block; with pages of 2 MiB, less than a
                                                   // third of its memory is unused
constexpr int64_t large_page =
    int64_t{8} << 20;  // bytes of a page of the large segments; smaller pages would need too many driver calls

int64_t round_up(int64_t bytes, int64_t step) { return (bytes + step - 1) / step * step; }

bool is_long_lived(Category category) {
  return category == Category::parameter || category == Category::gradient || category == Category::optimizer;
}

bool may_be_registered(Category category) { return category == Category::parameter || category == Category::gradient; }

}  // namespace

CardAllocator::CardAllocator(std::shared_ptr<Blocks> blocks, const Options& options)
    : Allocator(Held::measured),
      options_(options),
      driver_(options.ordinal),
      blocks_(std::move(blocks)),
      cleaner_(options.poison ? std::make_shared<Queue>(options.ordinal, 0) : nullptr),
      small_(driver_, options.addresses, driver_.page()),
      long_lived_(driver_, options.addresses, round_up(large_page, driver_.page())),
      short_lived_(driver_, options.addresses, round_up(large_page, driver_.page())),
      whole_(driver_) {}

int64_t CardAllocator::held() const { return small_.held() + long_lived_.held() + short_lived_.held() + whole_.held(); }
bool CardAllocator::fits(int64_t more) const {
  return options_.limit == 0 || held() + accounted() + more <= options_.limit;
}

Segment& CardAllocator::segment_for(int64_t size, Category category) {
  return size < large ? small_ : is_long_lived(category) ? long_lived_ : short_lived_;
}

std::optional<Segment::Taken> CardAllocator::take(Segment& segment, int64_t size) {
  if (auto taken = segment.take(size)) return taken;
  return fits(segment.missing(size)) && segment.grow(size) ? segment.take(size) : std::nullopt;
}

std::optional<Segment::Taken> CardAllocator::take_whole(int64_t size) {
  void* const block = fits(whole_.size_of(size)) ? whole_.take(size) : nullptr;
  return block ? std::optional(Segment::Taken{block, {}}) : std::nullopt;
}

void* CardAllocator::allocate(int64_t bytes, Category category) {
  if (bytes == 0) return nullptr;
  const int64_t size = round_up(bytes, alignment);
  const bool whole = blocks_->makes_whole() && may_be_registered(category) && size >= least_whole;
  std::optional<Segment::Taken> taken;
  bool within_limit = true;
  {
    std::lock_guard lock(mutex_);
    const auto attempt = [&] { return whole ? take_whole(size) : take(segment_for(size, category), size); };
    taken = attempt();
    if (!taken) {
      for (Segment* s : segments_) s->give_back_pages();
      taken = attempt();
    }
    if (!taken) within_limit = fits(whole ? whole_.size_of(size) : segment_for(size, category).missing(size));
    hold(held());
  }
  if (!taken) refuse("out of memory of the card", bytes, category, within_limit ? 0 : options_.limit);
  if (cleaner_) taken->former = poison(taken->begin, size, taken->former);
  blocks_->add(taken->begin, whole ? whole_.size_of(size) : size, std::move(taken->former), whole);
  count(bytes, category);
  return taken->begin;
}

// Sets all bits of a block, because a float with all bits set is NaN. Returns the mark that is passed when the block is
// filled.
Marks CardAllocator::poison(void* block, int64_t size, const Marks& former) {
  for (const auto& mark : former) cleaner_->wait(*mark);
  {
    const auto cleaner = cleaner_->handle();
    check(cudaMemsetAsync(block, 0xff, size, cleaner.get()), "poisoning memory");
  }
  return {cleaner_->record()};
}

void CardAllocator::deallocate(void* block, int64_t bytes, Category category) {
  if (!block) return;
  count(-bytes, category);
  try {
    const bool whole = blocks_->whole(block).has_value();
    Marks last = blocks_->remove(block);
    if (whole)
      for (const auto& mark : last) mark->wait();
    std::lock_guard lock(mutex_);
    if (whole) return whole_.give(block);
    for (Segment* s : segments_)
      if (s->contains(block)) s->give(block, round_up(bytes, alignment), std::move(last));
  } catch (const base::Error&) {
    // The card has failed, and its next use reports the error. The lost block no longer matters.
  }
}

}  // namespace hexad::device::cuda
