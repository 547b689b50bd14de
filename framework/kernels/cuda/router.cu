// Routers. One warp computes the scores of a token's experts, chooses experts, and computes the weights of the chosen
// experts.
#include <limits>

#include "framework/kernels/cuda/launch.cuh"
#include "framework/kernels/cuda/order.cuh"
#include "framework/kernels/kernel_table.h"
#include "framework/kernels/operand_checks.h"

namespace hexad::kernels::cuda {

using namespace base;
namespace {

// Addend of the sum of the chosen scores, as in DeepSeek-V3. Prevents 0/0 if all chosen scores are zero.
constexpr double tiny = 1e-20;
constexpr int warps = 4, threads = warps * warp_size;
constexpr unsigned whole_warp = 0xffffffffu;

/// Minimum number of resident blocks per multiprocessor, which bounds the registers per thread. Without this number,
/// the compiler uses only 32 or 40 registers and spills the remaining values to memory.
template <int N>
constexpr int resident = N > 8 ? 4 : 8;

/// A RouterRule with the types of the kernel.
template <class A>
struct Rule {
  bool softmax, normalize, best_two;
  int experts, top_k, groups, top_groups;
  A scale, floor;

  /// Returns the number by which the weights are divided if the chosen scores have this sum.
  __device__ __forceinline__ A divisor(A sum) const {
    const A most = sum + static_cast<A>(tiny);
    return !normalize ? A(1) : most < floor ? floor : most;
  }
};

template <class A>
Rule<A> rule_for(const RouterRule& rule, int64_t experts) {
  return {.softmax = rule.score == RouterScore::softmax,
          .normalize = rule.normalize,
          .best_two = rule.group_score == RouterGroupScore::best_two,
          .experts = static_cast<int>(experts),
          .top_k = static_cast<int>(rule.top_k),
          .groups = static_cast<int>(rule.groups),
          .top_groups = static_cast<int>(rule.top_groups),
          .scale = static_cast<A>(rule.scale),
          .floor = static_cast<A>(rule.normalize_floor)};
}

/// Order of an expert or group that can no longer be chosen: lower than all other orders.
constexpr uint32_t taken = 0;

/// Returns the number that `order` represents; -infinity for NaN.
template <class A>
__device__ A number_of(Order<A> order) {
  if (order == nan_order) return -std::numeric_limits<A>::infinity();
  const Order<A> bits = order & sign_bit<A> ? order ^ sign_bit<A> : ~order;
  if constexpr (std::is_same_v<A, double>) {
    return __longlong_as_double(static_cast<long long>(bits));
  } else {
    return __uint_as_float(bits);
  }
}

template <class A>
struct Candidate {
  Order<A> order = taken;
  int index = 0;

  /// Offers a candidate. Candidates must be offered in ascending order of their index, because the lower index wins a
  /// tie.
  __device__ void offer(Order<A> other, int at) {
    if (other > order) order = other, index = at;
  }
  /// Returns the best candidate of all lanes. The lower index wins a tie.
  __device__ Candidate of_warp() const {
    Candidate best{order, 0};
    if constexpr (std::is_same_v<A, double>) {
      best.order = warp_max(order);
    } else {
      best.order = __reduce_max_sync(whole_warp, order);
    }
    best.index = static_cast<int>(
        __reduce_min_sync(whole_warp, order == best.order ? static_cast<unsigned>(index) : whole_warp));
    return best;
  }
};

/// A lane's elements of a row: elements lane, lane + 32, ... There are N elements in registers or, if N is 0, any
/// number of elements in memory.
template <class X, int N>
struct LaneRow {
  X at[N];
  __device__ explicit LaneRow(X*) {}
  __device__ X& operator[](int i) { return at[i]; }
};
template <class X>
struct LaneRow<X, 0> {
  X* row;
  __device__ explicit LaneRow(X* row_) : row(row_ + threadIdx.x % warp_size) {}
  __device__ X& operator[](int i) { return row[int64_t{i} * warp_size]; }
};

/// Calls f(i, e) for each element i of this lane, in ascending order. e is the index of the element in the row.
template <int N, class F>
__device__ __forceinline__ void for_mine(int width, const F& f) {
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  if constexpr (N > 0) {
#pragma unroll
    for (int i = 0; i < N; ++i)
      if (i * warp_size + lane < width) f(i, i * warp_size + lane);
  } else {
    for (int i = 0; i * warp_size + lane < width; ++i) f(i, i * warp_size + lane);
  }
}

/// Removes the experts of all but the best groups from orders[experts]. `orders` and the scratch memory
/// group_orders[groups] belong to this warp.
template <class A>
__device__ void close_groups(Order<A>* orders, Order<A>* group_orders, const Rule<A>& rule) {
  const int lane = static_cast<int>(threadIdx.x) % warp_size, size = rule.experts / rule.groups;
  for (int g = lane; g < rule.groups; g += warp_size) {
    A first = -std::numeric_limits<A>::infinity(), second = first;
    for (int e = g * size; e < (g + 1) * size; ++e) {
      const A s = number_of<A>(orders[e]);
      if (s > first) {
        second = first;
        first = s;
      } else if (s > second) {
        second = s;
      }
    }
    group_orders[g] = order_of(rule.best_two && size > 1 ? first + second : first);
  }
  // This loop needs no barrier, because each lane reads only groups that it wrote.
  for (int n = 0; n < rule.top_groups; ++n) {
    Candidate<A> best;
    for (int g = lane; g < rule.groups; g += warp_size) best.offer(group_orders[g], g);
    best = best.of_warp();
    if (best.index % warp_size == lane) group_orders[best.index] = taken;
  }
  __syncwarp();
  for (int e = lane; e < rule.experts; e += warp_size)
    if (group_orders[e / size] != taken) orders[e] = taken;
}

/// Chooses among at most 32 N experts. If N is 0, any number of experts is allowed, and `scratch` must have experts +
/// groups elements for each warp.
template <class A, int N>
__global__ void __launch_bounds__(threads, resident<N>)
    forward_kernel(A* scores, int32_t* ids, A* weights, const A* logits, const A* bias, int64_t tokens, Rule<A> rule,
                   Order<A>* scratch) {
  __shared__ Order<A> shared[warps][2][N > 0 ? N * warp_size : 1];
  const int lane = static_cast<int>(threadIdx.x) % warp_size, warp = static_cast<int>(threadIdx.x) / warp_size;
  const int64_t first = int64_t{blockIdx.x} * warps + warp;
  Order<A>* const orders = N > 0 ? shared[warp][0] : scratch + first * (rule.experts + rule.groups);
  Order<A>* const group_orders = N > 0 ? shared[warp][1] : orders + rule.experts;

  for (int64_t t = first; t < tokens; t += int64_t{gridDim.x} * warps) {
    A *const score_row = scores + t * rule.experts, *const weight = weights + t * rule.top_k;
    LaneRow<A, N> score(score_row);
    LaneRow<Order<A>, N> order(orders);

    A largest = -std::numeric_limits<A>::infinity();  // the maximum ignores NaN, but the sum does not
    for_mine<N>(rule.experts, [&](int i, int e) {
      const A x = logits[t * rule.experts + e];
      score[i] = x;
      largest = x > largest ? x : largest;
    });
    if (rule.softmax) {
      largest = warp_max(largest);
      A sum = 0;
      for_mine<N>(rule.experts, [&](int i, int) { sum += score[i] = exp(score[i] - largest); });
      sum = warp_sum(sum);
      for_mine<N>(rule.experts, [&](int i, int) { score[i] /= sum; });
    } else {
      for_mine<N>(rule.experts, [&](int i, int) { score[i] = 1 / (1 + exp(-score[i])); });
    }
    for_mine<N>(rule.experts, [&](int i, int e) {
      if constexpr (N > 0) score_row[e] = score[i];
      order[i] = order_of(bias ? score[i] + bias[e] : score[i]);
    });

    if (rule.top_groups < rule.groups) {
      if constexpr (N > 0) for_mine<N>(rule.experts, [&](int i, int e) { orders[e] = order[i]; });
      __syncwarp();
      close_groups(orders, group_orders, rule);
      if constexpr (N > 0) for_mine<N>(rule.experts, [&](int i, int e) { order[i] = orders[e]; });
    }

    A sum = 0;
    for (int k = 0; k < rule.top_k; ++k) {
      Candidate<A> best;
      for_mine<N>(rule.experts, [&](int i, int e) { best.offer(order[i], e); });
      best = best.of_warp();
      A chosen = 0;
      for_mine<N>(rule.experts, [&](int i, int e) {
        if (e != best.index) return;
        order[i] = taken;
        chosen = score[i];
      });
      chosen = __shfl_sync(whole_warp, chosen, best.index % warp_size);
      sum += chosen;
      if (k % warp_size == lane) {
        ids[t * rule.top_k + k] = best.index;
        weight[k] = chosen;
      }
    }
    const A factor = rule.scale / rule.divisor(sum);
    for (int k = lane; k < rule.top_k; k += warp_size) weight[k] *= factor;
  }
}

template <class A>
__global__ void __launch_bounds__(threads)
    weigh_kernel(A* weights, const int32_t* ids, const A* scores, int64_t tokens, Rule<A> rule) {
  const int64_t t = int64_t{blockIdx.x} * threads + threadIdx.x;
  if (t >= tokens) return;
  A* const weight = weights + t * rule.top_k;
  A sum = 0;
  for (int k = 0; k < rule.top_k; ++k) sum += weight[k] = scores[t * rule.experts + ids[t * rule.top_k + k]];
  const A factor = rule.scale / rule.divisor(sum);
  for (int k = 0; k < rule.top_k; ++k) weight[k] *= factor;
}

// Computes the gradient of the logits in two steps.
//
// Step 1: ds = dscores. For the chosen experts, adds the gradient through the weights:
// - if the rule does not normalise weights: scale * dw
// - if the sum of the chosen scores is below the floor: scale * dw / floor
// - otherwise: scale * (dw - <dw, s> / sum) / sum
//
// Step 2: dx = s * (ds - <s, ds>) for softmax, and dx = s * (1 - s) * ds for sigmoid.
template <class A, int N>
__global__ void __launch_bounds__(threads, resident<N>)
    backward_kernel(A* __restrict__ dlogits, const A* __restrict__ dweights, const A* __restrict__ dscores,
                    const A* __restrict__ scores, const int32_t* __restrict__ ids, int64_t tokens, Rule<A> rule) {
  const int64_t t = int64_t{blockIdx.x} * warps + threadIdx.x / warp_size;
  if (t >= tokens) return;
  A* const dx = dlogits + t * rule.experts;
  const A *const s = scores + t * rule.experts, *const dw = dweights + t * rule.top_k;
  const int32_t* const id = ids + t * rule.top_k;
  LaneRow<A, N> ds(dx);
  for_mine<N>(rule.experts, [&](int i, int e) { ds[i] = dscores ? dscores[t * rule.experts + e] : A(0); });

  A sum = 1, mean = 0;
  if (rule.normalize) {
    sum = static_cast<A>(tiny);
    for (int k = 0; k < rule.top_k; ++k) sum += s[id[k]];
    if (sum < rule.floor) {
      sum = rule.floor;
    } else {
      for (int k = 0; k < rule.top_k; ++k) mean += dw[k] * s[id[k]];
      mean /= sum;
    }
  }
  const A factor = rule.scale / sum;
  for (int k = 0; k < rule.top_k; ++k) {
    const int chosen = id[k];
    const A gradient = factor * (dw[k] - mean);
    for_mine<N>(rule.experts, [&](int i, int e) {
      if (e == chosen) ds[i] += gradient;
    });
  }

  if (rule.softmax) {
    A inner = 0;
    for_mine<N>(rule.experts, [&](int i, int e) { inner += s[e] * ds[i]; });
    inner = warp_sum(inner);
    for_mine<N>(rule.experts, [&](int i, int e) { dx[e] = s[e] * (ds[i] - inner); });
  } else {
    for_mine<N>(rule.experts, [&](int i, int e) { dx[e] = s[e] * (1 - s[e]) * ds[i]; });
  }
}

/// Calls f with the number of elements of a row that each lane holds in registers; 0 if the row is in memory.
template <class A, class F>
void with_held(int64_t experts, const F& f) {
  if constexpr (std::is_same_v<A, float>) {
    if (experts <= 1 * warp_size) return f(std::integral_constant<int, 1>{});
    if (experts <= 2 * warp_size) return f(std::integral_constant<int, 2>{});
    if (experts <= 4 * warp_size) return f(std::integral_constant<int, 4>{});
    if (experts <= 8 * warp_size) return f(std::integral_constant<int, 8>{});
    if (experts <= 16 * warp_size) return f(std::integral_constant<int, 16>{});
  }
  f(std::integral_constant<int, 0>{});
}

void forward(Stream& stream, const Tensor& scores, const Tensor& ids, const Tensor& weights, const Tensor& logits,
             const Tensor& bias, const RouterRule& rule) {
  const int64_t tokens = logits.dim(0), experts = logits.dim(1);
  check_rule(rule, experts);
  require_flat("router", "logits", logits, tokens * experts);
  require_flat("router", "scores", scores, tokens * experts);
  require_flat("router", "ids", ids, tokens * rule.top_k);
  require_flat("router", "weights", weights, tokens * rule.top_k);
  if (bias.defined()) require_flat("router", "bias", bias, experts);
  with_dtype<float, double>("router", logits.dtype(), [&]<class A>() {
    with_held<A>(experts, [&]<int N>(std::integral_constant<int, N>) {
      const int64_t blocks = N > 0 ? blocks_of(tokens, warps) : blocks_for(stream, tokens, warps, 4);
      Tensor scratch;
      if (N == 0) {
        const int64_t bytes = blocks * warps * (experts + rule.groups) * int64_t{sizeof(Order<A>)};
        scratch = Tensor::empty({bytes}, Dtype::u8, logits.device());
      }
      launch("router", forward_kernel<A, N>, blocks, threads, stream, pointer<A>(scores), pointer<int32_t>(ids),
             pointer<A>(weights), pointer<A>(logits), pointer<A>(bias), tokens, rule_for<A>(rule, experts),
             reinterpret_cast<Order<A>*>(pointer<uint8_t>(scratch)));
    });
  });
}

void weigh(Stream& stream, const Tensor& weights, const Tensor& ids, const Tensor& scores, const RouterRule& rule) {
  const int64_t tokens = scores.dim(0), experts = scores.dim(1);
  require_flat("router", "scores", scores, tokens * experts);
  require_flat("router", "weights", weights, tokens * rule.top_k);
  require_flat("router", "ids", ids, tokens * rule.top_k);
  with_dtype<float, double>("router", scores.dtype(), [&]<class A>() {
    launch("router", weigh_kernel<A>, blocks_of(tokens, threads), threads, stream, pointer<A>(weights),
           pointer<int32_t>(ids), pointer<A>(scores), tokens, rule_for<A>(rule, experts));
  });
}

void backward(Stream& stream, const Tensor& dlogits, const Tensor& dweights, const Tensor& dscores,
              const Tensor& scores, const Tensor& ids, const RouterRule& rule) {
  const int64_t tokens = scores.dim(0), experts = scores.dim(1);
  require_flat("router", "scores", scores, tokens * experts);
  require_flat("router", "dlogits", dlogits, tokens * experts);
  require_flat("router", "dweights", dweights, tokens * rule.top_k);
  require_flat("router", "ids", ids, tokens * rule.top_k);
  if (dscores.defined()) require_flat("router", "dscores", dscores, tokens * experts);
  with_dtype<float, double>("router", scores.dtype(), [&]<class A>() {
    with_held<A>(experts, [&]<int N>(std::integral_constant<int, N>) {
      launch("router", backward_kernel<A, N>, blocks_of(tokens, warps), threads, stream, pointer<A>(dlogits),
             pointer<A>(dweights), pointer<A>(dscores), pointer<A>(scores), pointer<int32_t>(ids), tokens,
             rule_for<A>(rule, experts));
    });
  });
}

}  // namespace
}  // namespace hexad::kernels::cuda

namespace hexad::kernels {

const RouterKernels RouterKernels::of_cuda{.forward = cuda::forward, .weigh = cuda::weigh, .backward = cuda::backward};

}  // namespace hexad::kernels
