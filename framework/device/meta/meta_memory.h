// Addresses of a meta device, which refer to no memory, and the known values at some of these addresses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace hexad::device {

/// Assigns addresses to blocks. Addresses are never reused, so each address identifies one block. The addresses must
/// not be dereferenced. Some bytes have known values: bytes from the host, copies of known bytes, and results that
/// routing kernels compute from known bytes. Not thread-safe.
class MetaMemory {
 public:
  enum class Place : uint8_t { device, offloaded };

  /// Returns the address of a new block of `bytes` > 0. `place` is the memory that the block represents.
  void* reserve(int64_t bytes, Place place = Place::device);
  /// Removes a block. Throws std::logic_error if no block begins at `block`.
  void release(void* block);
  /// True if `address` belongs to the meta device, not to the host.
  bool contains(const void* address) const;
  /// True if the block that contains `address` represents offload memory.
  bool is_offloaded(const void* address) { return around(address, 0)->second.place == Place::offloaded; }

  /// Returns the values of the `bytes` bytes at `address`; null if any of these bytes is unknown.
  std::byte* known(const void* address, int64_t bytes);
  /// Like known(), but first marks all these bytes as known. The caller must write the bytes that were unknown.
  std::byte* remember(const void* address, int64_t bytes);
  /// Marks the `bytes` bytes at `address` as unknown.
  void forget(const void* address, int64_t bytes);

 private:
  using Bytes = std::unique_ptr<std::byte[]>;
  using Ranges = std::map<int64_t, int64_t>;  // begin -> end, as offsets in a block; no two ranges touch
  struct Block {
    int64_t bytes;
    Bytes values;  // values of the bytes; valid only in the known ranges
    Ranges known;
    Place place = Place::device;
  };
  using Blocks = std::map<std::uintptr_t, Block>;
  Blocks::iterator last_from(std::uintptr_t address);
  Blocks::iterator around(const void* address, int64_t bytes);
  void drop_values(Block& block);

  static constexpr std::uintptr_t first = std::uintptr_t{1} << 56;  // above all addresses of a process on x86-64
  std::uintptr_t next_ = first;
  Blocks blocks_;
  std::map<int64_t, std::vector<Bytes>> spare_;  // value buffers that no block uses, by size, for reuse
};

}  // namespace hexad::device
