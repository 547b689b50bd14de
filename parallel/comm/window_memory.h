// Device memory that the devices of several ranks access.
#pragma once

#include "framework/tensor/tensor.h"

namespace hexad::comm {

using tensor::Tensor;

/// Blocks of memory, one on the device of each rank of a group. The devices access each other's blocks by addresses
/// that a library provides.
class WindowMemory {
 public:
  virtual ~WindowMemory() = default;
  struct Block {
    Tensor own;        // u8 [bytes]: block of this rank; valid until the next allocate()
    Tensor distances;  // i64 [ranks]: bytes from this rank's block to the block of each rank, for kernels of this rank
  };
  /// Allocates blocks of `bytes` bytes, and frees the previous blocks, which no rank may use any more. Collective and
  /// blocking. Throws Error(resource) on all ranks if a device cannot access the memory of all others.
  virtual Block allocate(int64_t bytes, device::Device device) = 0;
};

}  // namespace hexad::comm
