// Memory from which repeated measurements take their operands.
#pragma once

#include <cstdint>

#include "framework/tensor/tensor.h"

namespace hexad::plan {

/// Returns the bytes through which this rank must work so that what it used last is no longer in the outer cache, which
/// the ranks of a node share: twice this cache, at least 64 MiB, and at most `most`.
int64_t bytes_beyond_caches(int64_t ranks_of_node, int64_t most);

/// Zeros in f32, which are handed out piece after piece. In a step, large messages are gradients and weights, which
/// come from memory, and small ones are activations, which are often in a cache. Therefore pieces begin again after 64
/// of their size, or at the end of the memory.
class Operands {
 public:
  Operands(int64_t bytes, device::Device device);

  /// Returns the next piece: `numel` elements, at most as many as there are.
  tensor::Tensor next(int64_t numel);

 private:
  tensor::Tensor memory_;
  int64_t used_ = 0;  // elements before the next piece
};

}  // namespace hexad::plan
