// Merges the attention over two disjoint sets of keys. One warp computes one head of one row.
#include <limits>

#include "framework/kernels/cuda/attention/attention_calls.h"
#include "framework/kernels/cuda/launch.cuh"

namespace hexad::kernels::cuda {

using namespace base;
namespace {

constexpr int warps = 8, threads = warps * warp_size;

template <class A, class D>
struct Merge {
  A *sum, *log_sum_exp;
  const D* block;
  const A* block_log_sum_exp;
  int64_t rows, size;
};

template <class A, class D>
__global__ void __launch_bounds__(threads) merge_kernel(Merge<A, D> m) {
  const int64_t r = int64_t{blockIdx.x} * warps + threadIdx.x / warp_size;
  if (r >= m.rows) return;
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const A so_far = m.log_sum_exp[r], other = m.block_log_sum_exp[r];
  if (other == -std::numeric_limits<A>::infinity()) return;  // the row saw no key of the block
  const A top = so_far < other ? other : so_far;
  const A both = top + log(exp(so_far - top) + exp(other - top));
  const A keep = exp(so_far - both), take = exp(other - both);
  A* const to_row = m.sum + r * m.size;
  const D* const from = m.block + r * m.size;
  for (int64_t i = lane; i < m.size; i += warp_size) to_row[i] = keep * to_row[i] + take * to<A>(from[i]);
  __syncwarp();  // waits until all lanes have read the previous value
  if (lane == 0) m.log_sum_exp[r] = both;
}

}  // namespace

void merge_attention(Stream& stream, const Tensor& sum, const Tensor& sum_log_sum_exp, const Tensor& block,
                     const Tensor& block_log_sum_exp) {
  const int64_t rows = sum_log_sum_exp.numel(), size = block.dim(2);
  require_flat("attention_merge", "sum", sum, rows * size);
  require_flat("attention_merge", "sum_log_sum_exp", sum_log_sum_exp, rows);
  require_flat("attention_merge", "block", block, rows * size);
  require_flat("attention_merge", "block_log_sum_exp", block_log_sum_exp, rows);
  with_dtype<float, bf16, double>("attention_merge", block.dtype(), [&]<class T>() {
    using A = accumulator_t<T>;
    using D = device_t<T>;
    launch("attention_merge", merge_kernel<A, D>, blocks_of(rows, warps), threads, stream,
           Merge<A, D>{.sum = pointer<A>(sum),
                       .log_sum_exp = pointer<A>(sum_log_sum_exp),
                       .block = pointer<T>(block),
                       .block_log_sum_exp = pointer<A>(block_log_sum_exp),
                       .rows = rows,
                       .size = size});
  });
}

}  // namespace hexad::kernels::cuda
