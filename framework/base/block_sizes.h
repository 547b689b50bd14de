// Sizes of the blocks in which work is cut, where no recipe says them: all of them in one place.
#pragma once

#include <cstdint>

namespace hexad::base {

/// The shipped sizes. None changes a result by more than the rounding of a sum. A toy fits into one block of each,
/// which would hide a mistake that begins with the second; so `hexad verify` and tests compute with smaller ones.
struct BlockSizes {
  // layers/moe: rows of an expert whose gradient of T_M is in memory at a time (Experts::backward_weighted).
  int64_t expert_rows = 256;
  // optim: elements of offloaded states that are in memory at a time.
  int64_t optimizer_elements = int64_t{1} << 20;
  // parallel/tp: least bytes of a piece of a sum over tensor-parallel ranks.
  int64_t sum_bytes = 64 << 10;
  // parallel/comm: tensors of up to `whole_bytes` are reduced or broadcast in one round, since latency then counts for
  // more than bandwidth; minimum bytes of a message of all other tensors, a multiple of 64.
  int64_t whole_bytes = 8192, message_bytes = 16384;
  // framework/kernels/cpu: elements of a tensor's total (a norm) that one thread sums; elements of a sum of several
  // tensors that stay in the first-level cache, at most `most_cached_elements`; rows whose logits are there at a time;
  // elements of an f32 product that wait to be added to a bf16 tensor.
  int64_t total_elements = 65536, cached_elements = most_cached_elements, logit_rows = 256,
          rounded_elements = int64_t{1} << 20;
  // framework/autograd: initial values that are drawn at a time, at most `most_drawn_elements`.
  int64_t drawn_elements = most_drawn_elements;

  static constexpr int64_t most_cached_elements = 1024, most_drawn_elements = 4096;
  bool operator==(const BlockSizes&) const = default;
};

/// The sizes that this process computes with.
const BlockSizes& block_sizes();

/// Makes the process compute with other sizes as long as it exists. Made and destroyed while no other thread computes.
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
