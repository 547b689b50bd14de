// Allocator of card memory that reuses freed memory, in most cases without calls of the driver.
#pragma once

#include <array>

#include "framework/device/allocator.h"
#include "framework/device/cuda/segment.h"
#include "framework/device/cuda/whole_blocks.h"

namespace hexad::device::cuda {

/// Allocates blocks at multiples of 512 bytes. It has three segments: for blocks below 1 MiB, for larger long-lived
/// blocks (parameters, gradients, optimizer state), and for larger short-lived blocks. After Blocks::make_whole(), a
/// new parameter or gradient of at least 4 MiB is a separate allocation of the driver (whole_blocks.h).
class CardAllocator final : public Allocator {
 public:
  struct Options {
    int ordinal = 0;
    int64_t addresses = 0;  // bytes of addresses that each segment reserves; a multiple of all segments' page sizes
    int64_t limit = 0;      // maximum bytes of mapped pages and of memory passed to account(); 0: no limit
    bool poison = false;    // true: new blocks are filled with NaN
  };
  /// `blocks` records the queues that use each block. The host must not access the blocks.
  CardAllocator(std::shared_ptr<Blocks> blocks, const Options& options);

  void* allocate(int64_t bytes, Category category) override;
  void deallocate(void* block, int64_t bytes, Category category) override;
  bool on_host() const override { return false; }

 private:
  int64_t held() const;
  Segment& segment_for(int64_t size, Category category);
  bool fits(int64_t more) const;
  std::optional<Segment::Taken> take(Segment& segment, int64_t size);
  std::optional<Segment::Taken> take_whole(int64_t size);
  Marks poison(void* block, int64_t size, const Marks& former);

  const Options options_;
  const Driver driver_;
  const std::shared_ptr<Blocks> blocks_;
  std::shared_ptr<Queue> cleaner_;  // queue that writes the NaNs; null without Options::poison
  Segment small_, long_lived_, short_lived_;
  const std::array<Segment*, 3> segments_{&small_, &long_lived_, &short_lived_};
  WholeBlocks whole_;
};

}  // namespace hexad::device::cuda
