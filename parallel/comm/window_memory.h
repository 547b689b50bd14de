// Device memory that the devices of several ranks access.
#pragma once

#include <optional>

#include "framework/base/error.h"
#include "framework/tensor/tensor.h"

namespace hexad::comm {

using tensor::Tensor;

/// Blocks of memory, one on the device of each rank of a group. The devices access each other's blocks by addresses
/// that a library provides.
class WindowMemory {
 public:
  virtual ~WindowMemory() = default;
  struct Block {
    Tensor own;        // u8 [bytes]: block of this rank; valid until the next successful allocate()
    Tensor distances;  // i64 [ranks]: bytes from this rank's block to the block of each rank, for kernels of this rank
  };
  /// Allocates blocks of `bytes` bytes, and then frees the previous blocks, which no rank may use any more. Collective
  /// and blocking. Returns nullopt on all ranks, and keeps the previous blocks, if a device has too little memory.
  /// Throws Error(resource) on all ranks if a device cannot access the memory of all other devices.
  virtual std::optional<Block> allocate(int64_t bytes, device::Device device) = 0;
};

/// Calls `allocate`. Returns true if it throws Error(resource): there is too little memory.
template <class F>
bool lacks_memory(const F& allocate) {
  try {
    allocate();
    return false;
  } catch (const base::Error& e) {
    if (e.code() != base::ExitCode::resource) throw;
    return true;
  }
}

}  // namespace hexad::comm
