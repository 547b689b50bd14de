// Caching allocator with accounting by category.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "framework/device/memory.h"

namespace hexad::device {

/// Allocates blocks aligned to 64 bytes (a cache line, an AVX-512 register). Thread-safe, because threads of lanes free
/// blocks.
class Allocator {
 public:
  virtual ~Allocator() = default;

  /// Returns at least `bytes` bytes; nullptr for 0. If there is no room, throws Error(resource) with the memory in use
  /// by category and the largest blocks.
  virtual void* allocate(int64_t bytes, Category category) = 0;
  virtual void deallocate(void* block, int64_t bytes, Category category) = 0;
  /// True if the host may read and write the blocks at any time.
  virtual bool on_host() const { return true; }

  /// Changes the category of a live block: a temporary that the tape saves becomes an activation.
  void recategorise(int64_t bytes, Category from, Category to);
  /// Counts memory of the device that a library has taken for itself; negative: it has given memory back. A memory
  /// limit applies to the sum of this memory and the allocator's own.
  void account(int64_t bytes, Category category);
  MemoryStats stats() const;
  /// Returns the blocks in use that take the most memory, one line per size and category: "  12 x 1.50 MiB activation".
  std::string largest_blocks() const;
  /// Resets the peaks to the current use. Called once per step.
  void reset_peaks();

 protected:
  void count(int64_t bytes, Category category);     // negative bytes: freed
  void hold(int64_t bytes);                         // sets MemoryStats::held; call it under the mutex
  int64_t accounted() const { return accounted_; }  // sum of account(); call it under the mutex
  mutable std::mutex mutex_;

 private:
  void count_locked(int64_t bytes, Category category);
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
  MemoryStats stats_;
  int64_t accounted_ = 0;
  std::unordered_map<Size, int64_t, SizeHash> live_;  // number of blocks in use
};

/// Returns the size taken from the system for a block of `bytes`: rounded up to eighths of a power of two, at least
/// 512. At most 12.5% is wasted, and blocks of slightly varying sizes (experts) can be reused.
int64_t block_size(int64_t bytes);

/// Keeps freed blocks by size class (eighths of a power of two) and reuses them. Cached blocks are returned to the
/// system if a new block would exceed `limit`.
class CachingAllocator final : public Allocator {
 public:
  /// `limit` in bytes; 0: none. `poison` fills new blocks with NaN bits, so that reads of uninitialised memory become
  /// visible.
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
  int64_t held_ = 0;  // bytes taken from the system, in use or cached
  std::map<int64_t, std::vector<void*>> cached_;
};

}  // namespace hexad::device
