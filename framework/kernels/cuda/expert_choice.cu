// Choice of tokens by experts. In choose_kernel, one block per expert and scope finds the lowest score that the expert
// chooses, bit by bit, beginning with the most significant bit. Among the tokens with exactly this score, the expert
// chooses the first tokens.
#include <limits>

#include "framework/kernels/cuda/order.cuh"
#include "framework/kernels/cuda/scan.cuh"
#include "framework/kernels/kernel_table.h"
#include "framework/kernels/operand_checks.h"

namespace hexad::kernels::cuda {

using namespace base;
namespace {

// Number of threads of a block of choose_kernel. These blocks are as large as possible, because there may be few
// experts.
constexpr int choosers = 1024;
constexpr int threads = 128;  // number of threads of a block of the other kernels

template <class A>
struct Operands {
  const A* scores;
  const int64_t* rows;  // row of each token (-1: padding); null: token t is in row t
  int64_t tokens, scope_tokens;
  int slots, experts;
  double factor;

  __device__ int64_t row(int64_t token) const { return rows ? rows[token] : token; }
  /// Returns the score as an integer with the same order. NaN counts as -infinity.
  __device__ Order<A> rank_of(int64_t row, int expert) const {
    const A score = scores[row * experts + expert];
    return order_of(score != score ? -std::numeric_limits<A>::infinity() : score);
  }
};

/// Sets chosen[row, expert] to 1 for the tokens of one scope that one expert chooses.
template <class A>
__global__ void __launch_bounds__(choosers) choose_kernel(uint8_t* chosen, Operands<A> o) {
  const int expert = static_cast<int>(blockIdx.x % static_cast<unsigned>(o.experts));
  const auto scope = static_cast<int64_t>(blockIdx.x / static_cast<unsigned>(o.experts));
  const int64_t begin = scope * o.scope_tokens, end = min(begin + o.scope_tokens, o.tokens);
  // Returns the number of tokens of the scope for whose rows `holds` is true.
  const auto count = [&](const auto& holds) {
    unsigned mine = 0;
    for (int64_t t = begin + threadIdx.x; t < end; t += choosers) {
      const int64_t row = o.row(t);
      mine += row >= 0 && holds(row);
    }
    return block_scan<choosers>(mine).all;
  };
  const unsigned valid = count([](int64_t) { return true; });
  const double mean = static_cast<double>(int64_t{o.slots} * valid) / static_cast<double>(o.experts);
  const auto most = static_cast<unsigned>(min(static_cast<double>(valid), ceil(o.factor * mean)));
  if (most == 0) return;

  Order<A> last = 0;  // known leading bits of the lowest score that the expert chooses
  for (int bit = 8 * static_cast<int>(sizeof(A)) - 1; bit >= 0; --bit) {
    const Order<A> candidate = last | Order<A>{1} << bit;
    if (count([&](int64_t row) { return o.rank_of(row, expert) >= candidate; }) >= most) last = candidate;
  }
  const unsigned left = most - count([&](int64_t row) { return o.rank_of(row, expert) > last; });

  unsigned equal_before = 0;
  for (int64_t first = begin; first < end; first += choosers) {
    const int64_t t = first + threadIdx.x, row = t < end ? o.row(t) : -1;
    const Order<A> rank = row >= 0 ? o.rank_of(row, expert) : 0;
    const bool equal = row >= 0 && rank == last;
    const Scan scan = block_scan<choosers>(equal);
    if (row >= 0 && (rank > last || (equal && equal_before + scan.before < left))) chosen[row * o.experts + expert] = 1;
    equal_before += scan.all;
  }
}

/// Writes the experts that a token keeps. One thread computes one row.
template <class A>
__global__ void __launch_bounds__(threads) keep_kernel(int32_t* ids, const uint8_t* chosen, Operands<A> o) {
  const int64_t row = int64_t{blockIdx.x} * threads + threadIdx.x;
  if (row >= o.tokens) return;
  Order<A> previous = ~Order<A>{0};
  int previous_expert = -1;
  for (int k = 0; k < o.slots; ++k) {
    Order<A> best = 0;
    int expert = -1;
    for (int e = 0; e < o.experts; ++e) {
      if (!chosen[row * o.experts + e]) continue;
      const Order<A> rank = o.rank_of(row, e);
      const bool follows = rank < previous || (rank == previous && e > previous_expert);
      if (follows && rank > best) best = rank, expert = e;
    }
    ids[row * o.slots + k] = expert;
    previous = best, previous_expert = expert;
  }
}

template <class A>
__global__ void __launch_bounds__(threads)
    forward_kernel(A* weights, const A* scores, const int32_t* ids, int64_t count, int slots, int experts) {
  const int64_t i = int64_t{blockIdx.x} * threads + threadIdx.x;
  if (i < count) weights[i] = ids[i] < 0 ? A(0) : scores[i / slots * experts + ids[i]];
}

template <class A>
__global__ void __launch_bounds__(threads)
    backward_kernel(A* dscores, const A* dweights, const int32_t* ids, int64_t count, int slots, int experts) {
  const int64_t i = int64_t{blockIdx.x} * threads + threadIdx.x;
  if (i >= count) return;
  const int64_t token = i / experts;
  A sum = 0;
  for (int64_t slot = token * slots; slot < (token + 1) * slots; ++slot)
    if (ids[slot] == i % experts) sum += dweights[slot];
  dscores[i] = sum;
}

void choose_tokens(Stream& stream, const Tensor& ids, const Tensor& scores, const Tensor& rows, int64_t scope_tokens,
                   double factor) {
  require(scope_tokens > 0 && factor >= 0, "[expert_choice] scopes have ", scope_tokens, " tokens, and the factor is ",
          factor, "; expected at least 1 token and a factor of at least 0");
  const int64_t tokens = scores.dim(0), experts = scores.dim(1), slots = ids.dim(1);
  require_flat("expert_choice", "scores", scores, tokens * experts);
  require_flat("expert_choice", "ids", ids, tokens * slots);
  if (rows.defined()) require_flat("expert_choice", "rows", rows, tokens);
  if (tokens == 0) return;
  const Tensor chosen = Tensor::empty({tokens, experts}, Dtype::u8, ids.device());
  chosen.fill_bytes(0, stream);
  const int64_t scopes = (tokens + scope_tokens - 1) / scope_tokens;
  with_dtype<float, double>("expert_choice", scores.dtype(), [&]<class A>() {
    const Operands<A> o{.scores = pointer<A>(scores),
                        .rows = pointer<int64_t>(rows),
                        .tokens = tokens,
                        .scope_tokens = scope_tokens,
                        .slots = static_cast<int>(slots),
                        .experts = static_cast<int>(experts),
                        .factor = factor};
    launch("expert_choice", choose_kernel<A>, scopes * experts, choosers, stream, pointer<uint8_t>(chosen), o);
    launch("expert_choice", keep_kernel<A>, blocks_of(tokens, threads), threads, stream, pointer<int32_t>(ids),
           pointer<uint8_t>(chosen), o);
  });
}

void forward(Stream& stream, const Tensor& weights, const Tensor& scores, const Tensor& ids) {
  const ChoiceSizes n = choice_sizes("scores", scores, "weights", weights, ids);
  with_dtype<float, double>("expert_choice", scores.dtype(), [&]<class A>() {
    launch("expert_choice", forward_kernel<A>, blocks_of(n.tokens * n.slots, threads), threads, stream,
           pointer<A>(weights), pointer<A>(scores), pointer<int32_t>(ids), n.tokens * n.slots,
           static_cast<int>(n.slots), static_cast<int>(n.experts));
  });
}

void backward(Stream& stream, const Tensor& dscores, const Tensor& dweights, const Tensor& ids) {
  const ChoiceSizes n = choice_sizes("dscores", dscores, "dweights", dweights, ids);
  with_dtype<float, double>("expert_choice", dscores.dtype(), [&]<class A>() {
    launch("expert_choice", backward_kernel<A>, blocks_of(n.tokens * n.experts, threads), threads, stream,
           pointer<A>(dscores), pointer<A>(dweights), pointer<int32_t>(ids), n.tokens * n.experts,
           static_cast<int>(n.slots), static_cast<int>(n.experts));
  });
}

}  // namespace
}  // namespace hexad::kernels::cuda

namespace hexad::kernels {

const ExpertChoiceKernels ExpertChoiceKernels::of_cuda{
    .choose = cuda::choose_tokens, .forward = cuda::forward, .backward = cuda::backward};

}  // namespace hexad::kernels
