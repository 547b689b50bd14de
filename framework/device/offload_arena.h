// File-backed memory for offloaded activations on a CPU. (On a GPU, activations are offloaded to host memory.)
#pragma once

#include <string>

#include "framework/device/allocator.h"
#include "framework/device/free_ranges.h"

namespace hexad::device {

/// Allocates blocks in one unlinked file in `folder`. The mapping of the file is shared, so the operating system can
/// write pages to disk and drop them from memory. The sizes of blocks vary from step to step with the number of rows of
/// an expert. Freed blocks are therefore merged with free neighbours. A block is placed in the smallest free range that
/// is large enough. The file grows if no free range is large enough.
class OffloadArena : public Allocator {
 public:
  /// Throws Error(resource) if no file can be created in `folder`.
  explicit OffloadArena(const std::string& folder);
  ~OffloadArena() override;
  OffloadArena(const OffloadArena&) = delete;
  OffloadArena& operator=(const OffloadArena&) = delete;

  void* allocate(int64_t bytes, Category category) override;
  void deallocate(void* block, int64_t bytes, Category category) override;
  /// Returns the length of the file in bytes. The file never shrinks.
  int64_t file_bytes() const;

 private:
  struct Block {
    int64_t offset, size;
  };
  int64_t place(int64_t size);  // returns an offset in the file
  std::string folder_;
  int file_ = -1;
  int64_t end_ = 0;  // length of the file in bytes
  std::unordered_map<void*, Block> live_;
  FreeRanges free_;
};

}  // namespace hexad::device
