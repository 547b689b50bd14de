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

/// Hands out blocks aligned to 64 bytes (a cache line, an AVX-512 register). Thread-safe: lanes free from their
/// threads.
class Allocator {
 public:
  virtual ~Allocator() = default;

  /// At least `bytes` bytes; nullptr for 0. Throws Error(resource) with the table of use and the largest blocks when
  /// there is no room.
  virtual void* allocate(int64_t bytes, Category category) = 0;
  virtual void deallocate(void* block, int64_t bytes, Category category) = 0;
  /// True if the host may read and write the blocks at any time.
  virtual bool on_host() const { return true; }

  /// Moves the account of a live block: a temporary that the tape saves becomes an activation.
  void recategorise(int64_t bytes, Category from, Category to);
  MemoryStats stats() const;
  /// The blocks in use that make up most bytes, one line a size and category: "  12 x 1.50 MB activation".
  std::string largest_blocks() const;
  /// Peaks restart from the present use (once a step).
  void reset_peaks();

 protected:
  void count(int64_t bytes, Category category);  // negative bytes: freed
  void hold(int64_t bytes);                      // MemoryStats::held; under the mutex
  mutable std::mutex mutex_;

 private:
  void count_locked(int64_t bytes, Category category);
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
  std::unordered_map<Size, int64_t, SizeHash> live_;  // number of blocks
};

/// Keeps freed blocks by size class (eighths of a power of two) and reuses them; cached blocks are given back to the
/// system when a new one would exceed `limit`.
class CachingAllocator final : public Allocator {
 public:
  /// `limit` in bytes; 0 means none. `poison` fills new blocks with NaN bits, so that reading the uninitialised shows.
  explicit CachingAllocator(int64_t limit = 0, bool poison = false) : limit_(limit), poison_(poison) {}
  ~CachingAllocator() override;

  void* allocate(int64_t bytes, Category category) override;
  void deallocate(void* block, int64_t bytes, Category category) override;
  /// Gives all cached blocks back to the system.
  void trim();

 private:
  void trim_locked();
  int64_t limit_;
  bool poison_;
  int64_t held_ = 0;  // bytes taken from the system: in use and cached
  std::map<int64_t, std::vector<void*>> cached_;
};

}  // namespace hexad::device
