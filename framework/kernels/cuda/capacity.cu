// Drops the slots that exceed the capacity. In drop_kernel, one block per expert and scope finds the lowest score that
// is kept, digit by digit, beginning with the most significant digit. The block drops all slots with lower scores.
// Among the slots with exactly this score, the block keeps the slots of the first tokens, as many as fit in the
// capacity. With DropRule::position, all scores count as equal.
#include <limits>

#include "framework/kernels/cuda/order.cuh"
#include "framework/kernels/cuda/scan.cuh"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cuda {

using namespace base;
namespace {

constexpr int threads = 1024;  // blocks are as large as possible, because there may be few experts
constexpr int digit_bits = 8, digits = 1 << digit_bits;
static_assert(digits <= threads, "each counter needs a thread that clears it");

struct Operands {
  int32_t* ids;
  const int64_t* rows;  // row of each token; null: token t is in row t
  int64_t tokens, scope_tokens;
  int top_k, experts;
  double factor;
  bool by_score;

  __device__ int64_t row(int64_t token) const { return rows ? rows[token] : token; }
  __device__ bool is_expert(int32_t id) const { return id >= 0 && id < experts; }
  /// Returns the index of the slot in which row `row` selects `expert`; -1 if the row does not select it. Other blocks
  /// may drop slots of the row concurrently, but only slots of other experts.
  __device__ int64_t slot(int64_t row, int expert) const {
    for (int64_t i = row * top_k; i < (row + 1) * top_k; ++i)
      if (ids[i] == expert) return i;
    return -1;
  }
};

/// Computes valid[scope], the number of tokens with at least one slot. One block computes one scope.
__global__ void __launch_bounds__(threads) valid_kernel(int32_t* valid, Operands o) {
  const int64_t begin = int64_t{blockIdx.x} * o.scope_tokens, end = min(begin + o.scope_tokens, o.tokens);
  unsigned mine = 0;
  for (int64_t t = begin + threadIdx.x; t < end; t += threads) {
    bool any = false;
    for (int64_t i = o.row(t) * o.top_k; i < (o.row(t) + 1) * o.top_k; ++i) any |= o.is_expert(o.ids[i]);
    mine += any;
  }
  const Scan scan = block_scan<threads>(mine);
  if (threadIdx.x == 0) valid[blockIdx.x] = static_cast<int32_t>(scan.all);
}

/// Returns the score of a slot as an integer with the same order; 0 for all slots with DropRule::position. NaN counts
/// as -infinity.
template <class A>
__device__ Order<A> rank_of(const A* scores, int64_t row, int expert, const Operands& o) {
  if (!o.by_score) return 0;
  const A score = scores[row * o.experts + expert];
  return order_of(score != score ? -std::numeric_limits<A>::infinity() : score);
}

template <class A>
__global__ void __launch_bounds__(threads) drop_kernel(const A* scores, const int32_t* valid, Operands o) {
  __shared__ unsigned counts[digits];
  __shared__ Order<A> shared_last;
  __shared__ unsigned shared_left;
  const int expert = static_cast<int>(blockIdx.x % static_cast<unsigned>(o.experts));
  const auto scope = static_cast<int64_t>(blockIdx.x / static_cast<unsigned>(o.experts));
  const int64_t begin = scope * o.scope_tokens, end = min(begin + o.scope_tokens, o.tokens);
  unsigned mine = 0;
  for (int64_t t = begin + threadIdx.x; t < end; t += threads) mine += o.slot(o.row(t), expert) >= 0;
  const unsigned slots = block_scan<threads>(mine).all;
  const auto n = static_cast<double>(valid[scope]);
  const double mean = static_cast<double>(int64_t{o.top_k} * valid[scope]) / static_cast<double>(o.experts);
  const auto most = static_cast<unsigned>(min(n, ceil(o.factor * mean)));
  if (slots <= most) return;

  // Invariant: `last` contains the known leading digits of the lowest score that is kept. This score is the `left`-th
  // highest among the scores with these digits.
  Order<A> last = 0, known = 0;
  unsigned left = most;
  for (int shift = 8 * sizeof(A) - digit_bits; o.by_score && most > 0 && shift >= 0; shift -= digit_bits) {
    if (threadIdx.x < digits) counts[threadIdx.x] = 0;
    __syncthreads();
    for (int64_t t = begin + threadIdx.x; t < end; t += threads) {
      const int64_t row = o.row(t);
      if (o.slot(row, expert) < 0) continue;
      const Order<A> rank = rank_of(scores, row, expert, o);
      if ((rank & known) == last) atomicAdd(&counts[(rank >> shift) % digits], 1u);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      int digit = digits - 1;
      while (counts[digit] < left) left -= counts[digit--];
      shared_last = last | Order<A>(digit) << shift, shared_left = left;
    }
    __syncthreads();
    last = shared_last, left = shared_left;
    known |= Order<A>(digits - 1) << shift;
  }

  unsigned equal_before = 0;
  for (int64_t first = begin; first < end; first += threads) {
    const int64_t t = first + threadIdx.x, row = t < end ? o.row(t) : 0;
    const int64_t slot = t < end ? o.slot(row, expert) : -1;
    const Order<A> rank = slot >= 0 ? rank_of(scores, row, expert, o) : 0;
    const bool equal = slot >= 0 && rank == last;
    const Scan scan = block_scan<threads>(equal);
    const bool dropped = most == 0 || rank < last || (equal && equal_before + scan.before >= left);
    if (slot >= 0 && dropped) o.ids[slot] = -1;
    equal_before += scan.all;
  }
}

void drop(Stream& stream, const Tensor& ids, const Tensor& scores, const Tensor& rows, const Capacity& capacity) {
  const int64_t tokens = ids.dim(0), experts = scores.dim(1);
  require(capacity.scope_tokens > 0 && capacity.factor >= 0, "[drop] scopes have ", capacity.scope_tokens,
          " tokens, and the factor is ", capacity.factor, "; expected at least 1 token and a factor of at least 0");
  require_flat("drop", "ids", ids, tokens * ids.dim(1));
  require_flat("drop", "scores", scores, tokens * experts);
  if (rows.defined()) require_flat("drop", "rows", rows, tokens);
  if (tokens == 0) return;
  const int64_t scopes = (tokens + capacity.scope_tokens - 1) / capacity.scope_tokens;
  const Tensor valid = Tensor::empty({scopes}, Dtype::i32, ids.device());
  const Operands o{.ids = pointer<int32_t>(ids),
                   .rows = pointer<int64_t>(rows),
                   .tokens = tokens,
                   .scope_tokens = capacity.scope_tokens,
                   .top_k = static_cast<int>(ids.dim(1)),
                   .experts = static_cast<int>(experts),
                   .factor = capacity.factor,
                   .by_score = capacity.rule == DropRule::probability};
  launch("drop", valid_kernel, scopes, threads, stream, pointer<int32_t>(valid), o);
  with_dtype<float, double>("drop", scores.dtype(), [&]<class A>() {
    launch("drop", drop_kernel<A>, scopes * experts, threads, stream, pointer<A>(scores), pointer<int32_t>(valid), o);
  });
}

}  // namespace
}  // namespace hexad::kernels::cuda

namespace hexad::kernels {

const CapacityKernels CapacityKernels::of_cuda{.drop = cuda::drop};

}  // namespace hexad::kernels
