// Weights of SparseMixer. One thread computes one token, because a token has few experts.
#include <limits>

#include "framework/kernels/cuda/launch.cuh"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cuda {

using namespace base;
namespace {

constexpr int threads = 128;

/// Operands of one token.
template <class A>
struct Token {
  const A* logits;
  const int32_t* ids;
  int experts, slots;
  A tolerance;

  __device__ bool is_candidate(int expert, int slot) const {
    for (int i = 0; i < slot; ++i)
      if (ids[i] == expert) return false;
    return true;
  }
  __device__ A best(int slot) const {
    A largest = -std::numeric_limits<A>::infinity();
    for (int e = 0; e < experts; ++e)
      if (is_candidate(e, slot) && logits[e] > largest) largest = logits[e];
    return largest;
  }
  /// True if the softmax of `slot` includes `expert`. This softmax includes the slot's expert, and each candidate whose
  /// logit is at most tolerance * max(|logit|, top) below `top`. `top` is the largest logit of the candidates.
  __device__ bool takes_part(int expert, int slot, A top) const {
    if (expert == ids[slot]) return true;
    const A x = logits[expert], size = x < 0 ? -x : x;
    const bool far = top - x > tolerance * (size > top ? size : top);
    return !far && is_candidate(expert, slot);
  }
  __device__ A sum(int slot, A top) const {
    A total = 0;
    for (int e = 0; e < experts; ++e)
      if (takes_part(e, slot, top)) total += exp(logits[e] - top);
    return total;
  }
};

template <class A>
struct Operands {
  const A* logits;
  const int32_t* ids;
  int64_t tokens;
  int experts, slots;
  A tolerance;

  __device__ Token<A> token(int64_t t) const {
    return {logits + t * experts, ids + t * slots, experts, slots, tolerance};
  }
};

template <class A>
__global__ void __launch_bounds__(threads) forward_kernel(A* weights, Operands<A> o) {
  const int64_t t = int64_t{blockIdx.x} * threads + threadIdx.x;
  if (t >= o.tokens) return;
  const Token<A> token = o.token(t);
  for (int k = 0; k < o.slots; ++k) {
    const A best = token.best(k);
    weights[t * o.slots + k] = exp(token.logits[token.ids[k]] - best) / token.sum(k, best);
  }
}

template <class A>
__global__ void __launch_bounds__(threads) backward_kernel(A* dlogits, const A* dweights, Operands<A> o) {
  const int64_t t = int64_t{blockIdx.x} * threads + threadIdx.x;
  if (t >= o.tokens) return;
  const Token<A> token = o.token(t);
  A* dx = dlogits + t * o.experts;
  for (int e = 0; e < o.experts; ++e) dx[e] = 0;
  for (int k = 0; k < o.slots; ++k) {
    const A best = token.best(k), sum = token.sum(k, best);
    const A slope = dweights[t * o.slots + k] * (exp(token.logits[token.ids[k]] - best) / sum);
    for (int e = 0; e < o.experts; ++e)
      if (token.takes_part(e, k, best))
        dx[e] += slope * ((e == token.ids[k] ? A(1) : A(0)) - exp(token.logits[e] - best) / sum);
  }
}

template <class A>
Operands<A> operands_of(const Tensor& logits, const Tensor& ids, double tolerance) {
  const int64_t tokens = logits.dim(0), experts = logits.dim(1), slots = ids.dim(1);
  require_flat("sparse_mixer", "logits", logits, tokens * experts);
  require_flat("sparse_mixer", "ids", ids, tokens * slots);
  return {pointer<A>(logits),        pointer<int32_t>(ids),   tokens,
          static_cast<int>(experts), static_cast<int>(slots), static_cast<A>(tolerance)};
}

void forward(Stream& stream, const Tensor& weights, const Tensor& logits, const Tensor& ids, double tolerance) {
  with_dtype<float, double>("sparse_mixer", logits.dtype(), [&]<class A>() {
    const Operands<A> o = operands_of<A>(logits, ids, tolerance);
    require_flat("sparse_mixer", "weights", weights, ids.numel());
    launch("sparse_mixer", forward_kernel<A>, blocks_of(o.tokens, threads), threads, stream, pointer<A>(weights), o);
  });
}

void backward(Stream& stream, const Tensor& dlogits, const Tensor& dweights, const Tensor& logits, const Tensor& ids,
              double tolerance) {
  with_dtype<float, double>("sparse_mixer", logits.dtype(), [&]<class A>() {
    const Operands<A> o = operands_of<A>(logits, ids, tolerance);
    require_flat("sparse_mixer", "dlogits", dlogits, logits.numel());
    require_flat("sparse_mixer", "dweights", dweights, ids.numel());
    launch("sparse_mixer", backward_kernel<A>, blocks_of(o.tokens, threads), threads, stream, pointer<A>(dlogits),
           pointer<A>(dweights), o);
  });
}

}  // namespace
}  // namespace hexad::kernels::cuda

namespace hexad::kernels {

const SparseMixerKernels SparseMixerKernels::of_cuda{.forward = cuda::forward, .backward = cuda::backward};

}  // namespace hexad::kernels
