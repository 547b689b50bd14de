// Memory from which repeated measurements take their operands.
#pragma once

#include <cstdint>

#include "framework/tensor/tensor.h"

namespace hexad::plan {

/// Returns the bytes of operands that this rank must use in turn, so that earlier operands are no longer in the outer
/// caches of the node. The result is twice the size of these caches, divided by the number of ranks of the node. It is
/// at least 64 MiB, but at most `most` bytes.
int64_t bytes_beyond_caches(int64_t ranks_of_node, int64_t most);

/// Returns the bytes of operands that operations on activations and weights use in turn: 32 MiB, but at most `most`
/// bytes. Activations and weights of a step are usually in an outer cache.
int64_t bytes_of_outer_cache(int64_t most);

/// Returns the number of operands of `bytes` bytes that fill `in_use` bytes: at least 1, and at most `most`.
int64_t operands_in_turn(int64_t bytes, int64_t in_use, int64_t most);

/// Memory of f32 zeros that is handed out block after block. After 64 blocks of one size, or at the end of the memory,
/// the next block is at the beginning again. Small blocks therefore stay in a cache, like most activations of a step.
/// Large blocks come from memory, like gradients and weights.
class Operands {
 public:
  /// Unit of block sizes, in elements, as in buckets of parameters. Sizes are rounded up to multiples of this unit.
  static constexpr int64_t alignment = 16;

  Operands(int64_t bytes, device::Device device);

  /// Returns the next block. Throws std::logic_error if `numel`, rounded up, exceeds the size of the whole memory.
  tensor::Tensor next(int64_t numel);

 private:
  tensor::Tensor memory_;
  int64_t used_ = 0;  // elements before the next block
};

}  // namespace hexad::plan
