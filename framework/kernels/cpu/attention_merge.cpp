#include <algorithm>
#include <cmath>
#include <limits>

#include "framework/kernels/cpu/blockwise_attention.h"
#include "framework/kernels/cpu/flat_rows.h"
#include "framework/kernels/cpu/parallel.h"

namespace hexad::kernels::cpu {

using namespace base;

void attention_merge(Stream& stream, const Tensor& sum, const Tensor& sum_log_sum_exp, const Tensor& block,
                     const Tensor& block_log_sum_exp) {
  stream.run([=] {
    const int64_t rows = sum_log_sum_exp.numel(), size = block.dim(2);
    require_flat("attention_merge", "sum", sum, rows * size);
    require_flat("attention_merge", "sum_log_sum_exp", sum_log_sum_exp, rows);
    require_flat("attention_merge", "block", block, rows * size);
    require_flat("attention_merge", "block_log_sum_exp", block_log_sum_exp, rows);
    with_dtype<float, bf16, double>("attention_merge", block.dtype(), [&]<class T>() {
      using A = accumulator_t<T>;
      A *total = sum.data<A>(), *lse = sum_log_sum_exp.data<A>();
      const A* other_lse = block_log_sum_exp.data<A>();
      const T* other = block.data<T>();
      parallel_for(rows, row_grain(size), [=](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          if (other_lse[r] == -std::numeric_limits<A>::infinity()) continue;  // the row saw no key of the block
          const A top = std::max(lse[r], other_lse[r]);
          const A both = top + std::log(std::exp(lse[r] - top) + std::exp(other_lse[r] - top));
          const A keep = std::exp(lse[r] - both), take = std::exp(other_lse[r] - both);
          A* to = total + r * size;
          const T* from = other + r * size;
          for (int64_t i = 0; i < size; ++i) to[i] = keep * to[i] + take * static_cast<A>(from[i]);
          lse[r] = both;
        }
      });
    });
  });
}

}  // namespace hexad::kernels::cpu

namespace hexad::kernels {

// `of_cpu` is defined in this library, which contains `merge`. The library cpu_products contains `forward` and
// `backward`.
const AttentionKernels AttentionKernels::of_cpu{
    .forward = cpu::attention_forward, .backward = cpu::attention_backward, .merge = cpu::attention_merge};

}  // namespace hexad::kernels
