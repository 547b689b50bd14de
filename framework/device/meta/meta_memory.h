// Addresses of a meta device: memory that is not there, and the few values that are known all the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace hexad::device {

/// Every block has addresses of its own, used once, which tell blocks apart as real addresses do; nothing may be read
/// or written there. Some bytes are known: those that the host gave, that were copied from there, and that the kernels
/// that decide about routing made of them. For one thread.
class MetaMemory {
 public:
  /// Returns the address of a new block of `bytes` > 0.
  void* reserve(int64_t bytes);
  void release(void* block);
  bool contains(const void* address) const;

  /// Values of the `bytes` bytes from `address` on; null: not all of them are known.
  std::byte* known(const void* address, int64_t bytes);
  /// Like known(), but marks all the bytes as known: the caller writes those that were unknown.
  std::byte* remember(const void* address, int64_t bytes);
  void forget(const void* address, int64_t bytes);

 private:
  using Bytes = std::unique_ptr<std::byte[]>;
  using Ranges = std::map<int64_t, int64_t>;  // begin to end, none touching another
  struct Block {
    int64_t bytes;
    Bytes values;  // of the ranges that are known
    Ranges known;
  };
  using Blocks = std::map<std::uintptr_t, Block>;
  Blocks::iterator around(const void* address, int64_t bytes);
  void drop_values(Block& block);

  static constexpr std::uintptr_t first = std::uintptr_t{1} << 56;  // above all that a process can have
  std::uintptr_t next_ = first;
  Blocks blocks_;
  std::map<int64_t, std::vector<Bytes>> spare_;  // by size: values of blocks, for others of the same size
};

}  // namespace hexad::device
