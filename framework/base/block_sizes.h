// Block sizes that recipes cannot set, collected in one file.
#pragma once

#include <cstdint>

namespace hexad::base {

/// Sizes of the blocks into which work is divided, and thresholds that choose how ranks communicate. The program uses
/// the defaults, except in `hexad verify`. A size affects results only through the rounding of sums. With the defaults,
/// a toy model often fits into a single block, which would hide errors that occur only in later blocks. Therefore most
/// sizes are smaller in `hexad verify`, and some are smaller in tests.
struct BlockSizes {
  // layers/moe: number of rows of one expert for which weighted gradients are in memory at a time
  // (Experts::backward_weighted).
  int64_t expert_rows = 256;
  // optim: number of elements of each offloaded tensor (main weights or a state) that are in device memory at a time.
  int64_t optimizer_elements = int64_t{1} << 20;
  // parallel/tp: minimum bytes of a piece of a sum over tensor-parallel ranks. The last piece may be smaller.
  int64_t sum_bytes = 64 << 10;
  // parallel/comm: tensors of at most whole_bytes bytes are reduced or broadcast as a whole, because latency matters
  // more than bandwidth for small tensors. The buffers of the sum must also fit into scratch_bytes. Larger tensors are
  // cut into messages. The limit on the size of a message is never below message_bytes, unless scratch_bytes requires
  // smaller messages. message_bytes must be a multiple of 64.
  int64_t whole_bytes = 8192, message_bytes = 16384;
  // parallel/comm: in groups of at most direct_ranks ranks, every rank sends small tensors to every other rank. In
  // larger groups, a rank sends small tensors to a few ranks, which forward them. In such a group, all buffers of a sum
  // together have at most about scratch_bytes.
  int64_t direct_ranks = 16, scratch_bytes = int64_t{8} << 20;
  // framework/kernels/cpu:
  // - total_elements: number of elements in each partial sum of a total over a tensor, such as a norm.
  // - cached_elements: number of elements that are computed at a time in a sum of several tensors, also in
  //   parallel/comm. They fit into the first-level cache. The maximum is max_cached_elements.
  // - logit_rows: number of rows whose logits are in memory at a time.
  // - rounded_elements: number of elements of an f32 product that are buffered before they are added to a bf16 tensor.
  int64_t total_elements = 65536, cached_elements = max_cached_elements, logit_rows = 256,
          rounded_elements = int64_t{1} << 20;
  // framework/autograd: number of initial values that are drawn at a time; at most `max_drawn_elements`.
  int64_t drawn_elements = max_drawn_elements;

  static constexpr int64_t max_cached_elements = 1024, max_drawn_elements = 4096;
  bool operator==(const BlockSizes&) const = default;
};

/// Returns the block sizes of this process.
const BlockSizes& block_sizes();

/// Replaces the block sizes of the process while this object exists. Create and destroy it only while no other thread
/// computes.
class WithBlockSizes {
 public:
  explicit WithBlockSizes(const BlockSizes& sizes);
  ~WithBlockSizes();
  WithBlockSizes(const WithBlockSizes&) = delete;
  WithBlockSizes& operator=(const WithBlockSizes&) = delete;

 private:
  const BlockSizes before_;
};

}  // namespace hexad::base
