// Interface of allocators that count memory by category, and a caching allocator of host memory.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "framework/device/memory.h"

namespace hexad::device {

/// Allocates blocks that are aligned to 64 bytes, the size of a cache line and of an AVX-512 register. Thread-safe,
/// because the threads of lanes also free blocks.
class Allocator {
 public:
  virtual ~Allocator() = default;

  /// Allocates a block of at least `bytes` bytes; returns nullptr if `bytes` is 0. Throws Error(resource) if the memory
  /// or its limit does not suffice.
  virtual void* allocate(int64_t bytes, Category category) = 0;
  virtual void deallocate(void* block, int64_t bytes, Category category) = 0;
  /// True if the host may read and write the blocks at any time.
  virtual bool on_host() const { return true; }

  /// Changes the category of a live block. For example, a temporary that the tape saves becomes an activation.
  virtual void recategorise(int64_t bytes, Category from, Category to);
  /// Counts `bytes` bytes of device memory that a library allocated directly. A negative number counts memory that the
  /// library freed. A memory limit applies to the sum of this memory and the allocator's own memory.
  void account(int64_t bytes, Category category);
  MemoryStats stats() const;
  /// Describes the blocks in use that occupy the most memory, in at most eight lines, one per size and category.
  /// Example of a line: "  12 x 1.50 MiB activation". Returns an empty text on a meta device, which never runs out of
  /// memory.
  std::string largest_blocks() const;
  /// Resets the peaks to the current use. Callers can thus measure the peaks of one part of a run, such as a step.
  void reset_peaks();

 protected:
  enum class Held : uint8_t { measured, not_measured };
  enum class Live : uint8_t { listed, not_listed };
  /// Makes an allocator without blocks. With Held::measured, the derived class must call hold() to set
  /// MemoryStats::held. With Live::listed, largest_blocks() lists the blocks in use, at the cost of an update of a map
  /// per allocation.
  explicit Allocator(Held held = Held::not_measured, Live live = Live::listed) : measuring_(held), listing_(live) {}

  void count(int64_t bytes, Category category);         // a negative number counts freed bytes
  void count_locked(int64_t bytes, Category category);  // like count(); requires the mutex
  void hold(int64_t bytes);                             // sets held to bytes + accounted(); requires the mutex
  int64_t accounted() const { return accounted_; }      // sum of all account() calls; requires the mutex
  /// Throws Error(resource) for a block that cannot be allocated. `memory` is the beginning of the message, such as
  /// "out of memory". `limit` is the limit, in bytes, that the block would exceed; 0 if the memory itself does not
  /// suffice. Must not be called with the mutex locked.
  [[noreturn]] void refuse(std::string_view memory, int64_t bytes, Category category, int64_t limit) const;
  mutable std::mutex mutex_;

 private:
  void add_locked(int64_t bytes, Category category);
  struct Size {
    int64_t bytes;
    Category category;
    bool operator==(const Size&) const = default;
  };
  struct SizeHash {
    size_t operator()(const Size& s) const {
      return static_cast<size_t>(s.bytes) * category_count + static_cast<size_t>(s.category);
    }
  };
  const Held measuring_;
  const Live listing_;
  MemoryStats stats_;
  int64_t accounted_ = 0;
  std::unordered_map<Size, int64_t, SizeHash> live_;  // number of blocks in use, by size and category
};

/// Returns the size class of a block: `bytes` rounded up to a multiple of 1/8 of the largest power of two below
/// `bytes`; at least 512. Above 512 bytes, at most 12.5% is wasted. Two blocks of slightly different sizes, such as the
/// rows of two experts, can reuse each other's memory.
int64_t block_size(int64_t bytes);

/// Caches freed blocks by size class (block_size()) and reuses them. Returns the cached blocks to the system if the
/// system has no memory for a new block. Also returns them if the blocks in use, the cached blocks and the new block
/// together would exceed `limit`.
class CachingAllocator final : public Allocator {
 public:
  /// `limit` is in bytes; 0 means no limit. `poison` fills every allocated block with NaN bits, which make reads of
  /// uninitialised memory visible.
  explicit CachingAllocator(int64_t limit = 0, bool poison = false) : limit_(limit), poison_(poison) {}
  ~CachingAllocator() override;

  void* allocate(int64_t bytes, Category category) override;
  void deallocate(void* block, int64_t bytes, Category category) override;
  /// Returns all cached blocks to the system.
  void trim();

 private:
  void trim_locked();
  int64_t limit_;
  bool poison_;
  int64_t held_ = 0;  // bytes of the size classes of all blocks, in use or cached
  std::map<int64_t, std::vector<void*>> cached_;
};

}  // namespace hexad::device
