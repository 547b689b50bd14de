// File-backed memory for activations that were moved out of the way (the CPU's stand-in for host memory of a GPU).
#pragma once

#include <string>

#include "framework/device/allocator.h"

namespace hexad::device {

/// Blocks live in one unlinked file in `folder`, mapped shared, so that the kernel may write them out and drop them.
class OffloadArena : public Allocator {
 public:
  /// Throws Error(resource) when the folder cannot hold a file.
  explicit OffloadArena(const std::string& folder);
  ~OffloadArena() override;
  OffloadArena(const OffloadArena&) = delete;
  OffloadArena& operator=(const OffloadArena&) = delete;

  void* allocate(int64_t bytes, Category category) override;
  void deallocate(void* block, int64_t bytes, Category category) override;

 private:
  struct Block {
    int64_t offset, size;
  };
  std::string folder_;
  int file_ = -1;
  int64_t end_ = 0;  // length of the file
  std::unordered_map<void*, Block> live_;
  std::map<int64_t, std::vector<int64_t>> free_;  // size -> offsets of file ranges to reuse
};

}  // namespace hexad::device
