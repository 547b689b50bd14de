// Addresses of a meta device: memory that is not there, and the few values that are known all the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace hexad::device {

/// Blocks have places of their own, which tell them apart as those of real blocks do, and are used once; nothing may be
/// read or written there. Of some blocks bytes are known: what the host gave, what was copied from there, and what the
/// kernels that decide about routing made of it. Of one thread.
class MetaMemory {
 public:
  /// A place for a block of so many bytes, > 0.
  void* reserve(int64_t bytes);
  void release(void* block);
  bool contains(const void* address) const;

  /// The known bytes from `address` on, to the block's end; null: nobody knows them.
  std::byte* known(const void* address);
  /// The same; from now on they are known, zero until somebody writes them.
  std::byte* remember(const void* address);
  /// Of the block around `address`.
  void forget(const void* address);

 private:
  using Bytes = std::unique_ptr<std::byte[]>;
  struct Block {
    int64_t bytes;
    Bytes known;
  };
  using Blocks = std::map<std::uintptr_t, Block>;
  Blocks::iterator around(const void* address);
  void forget(Block& block);

  static constexpr std::uintptr_t first = std::uintptr_t{1} << 56;  // above all that a process can have
  std::uintptr_t next_ = first;
  Blocks blocks_;
  std::map<int64_t, std::vector<Bytes>> spare_;  // by size: what was known of blocks, for others of the same size
};

}  // namespace hexad::device
