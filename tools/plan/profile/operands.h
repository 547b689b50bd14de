// Memory from which repeated measurements take their operands.
#pragma once

#include <cstdint>

#include "framework/tensor/tensor.h"

namespace hexad::plan {

/// Returns the bytes through which this rank must work so that what it used last is no longer in the outer caches of
/// the node, which its ranks share: twice these caches, at least 64 MiB, and at most `most`.
int64_t bytes_beyond_caches(int64_t ranks_of_node, int64_t most);

/// Returns the bytes through which operations on activations and weights work in turn, because those of a step are
/// usually in an outer cache: 32 MiB, and at most `most`.
int64_t bytes_of_outer_cache(int64_t most);

/// Returns the number of operands of `bytes` bytes that fill `in_use` bytes: at least 1, and at most `most`.
int64_t operands_in_turn(int64_t bytes, int64_t in_use, int64_t most);

/// Zeros in f32, which are handed out block after block. In a step, large messages are gradients and weights, which
/// come from memory, and small ones are activations, which are often in a cache. Therefore blocks of one size begin
/// again after 64 of them, or at the end of the memory.
class Operands {
 public:
  /// Elements to whose multiples the sizes of blocks are rounded up, as in buckets of parameters.
  static constexpr int64_t alignment = 16;

  Operands(int64_t bytes, device::Device device);

  /// Returns the next block. Throws std::logic_error if `numel` elements, rounded up, are more than there are.
  tensor::Tensor next(int64_t numel);

 private:
  tensor::Tensor memory_;
  int64_t used_ = 0;  // elements before the next block
};

}  // namespace hexad::plan
