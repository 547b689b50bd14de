// File-backed memory for activations that were moved out of the way (the CPU's stand-in for host memory of a GPU).
#pragma once

#include <string>

#include "framework/device/allocator.h"
#include "framework/device/free_ranges.h"

namespace hexad::device {

/// Blocks live in one unlinked file in `folder`, mapped shared, so that the kernel may write them out and drop them.
/// Sizes vary from step to step, as the rows of experts do: what is freed joins its free neighbours, and a block of any
/// size takes the smallest part that has room. The file grows when none has.
class OffloadArena : public Allocator {
 public:
  /// Throws Error(resource) when the folder cannot hold a file.
  explicit OffloadArena(const std::string& folder);
  ~OffloadArena() override;
  OffloadArena(const OffloadArena&) = delete;
  OffloadArena& operator=(const OffloadArena&) = delete;

  void* allocate(int64_t bytes, Category category) override;
  void deallocate(void* block, int64_t bytes, Category category) override;
  /// Length of the file, which never shrinks.
  int64_t file_bytes() const;

 private:
  struct Block {
    int64_t offset, size;
  };
  int64_t place(int64_t size);  // an offset in the file
  std::string folder_;
  int file_ = -1;
  int64_t end_ = 0;  // length of the file
  std::unordered_map<void*, Block> live_;
  FreeRanges free_;
};

}  // namespace hexad::device
