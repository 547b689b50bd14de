// Statistics of routing, and the losses computed from them. A sum over tokens is divided into partial sums. The number
// of partial sums depends only on the number of tokens.
#include <limits>

#include "framework/kernels/cuda/launch.cuh"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cuda {

using namespace base;
namespace {

constexpr int threads = 256, warps = threads / warp_size;
constexpr int shared_bins = 4096;

int64_t warps_for(int64_t tokens) { return blocks_of(tokens, warps); }
/// Returns the number of blocks that compute a sum over tokens. For many tokens, the blocks fill any card.
int64_t partial_sums(int64_t tokens) { return std::min<int64_t>(warps_for(tokens), 1024); }

__device__ int lane_id() { return static_cast<int>(threadIdx.x) % warp_size; }
__device__ int64_t warp_id() { return int64_t{blockIdx.x} * warps + threadIdx.x / warp_size; }
__device__ int64_t warp_count() { return int64_t{gridDim.x} * warps; }

/// Returns the scope of token t; -1 if the token has no scope. If `segment` is null, all tokens are in scope 0.
__device__ int scope_of(const int32_t* segment, int64_t t) { return segment ? segment[t] : 0; }

/// Counts slots by bin. A bin is a pair of a scope and an expert or, if `counts` is null, an expert. If `shared` is
/// true, the `bins` bins fit into shared memory, and each block counts there first.
__global__ void __launch_bounds__(threads)
    count_kernel(int64_t* counts, int64_t* totals, const int32_t* ids, const int32_t* segment, int64_t slots, int top_k,
                 int experts, int bins, bool shared) {
  __shared__ unsigned local[shared_bins];
  if (shared) {
    for (int i = static_cast<int>(threadIdx.x); i < bins; i += threads) local[i] = 0;
    __syncthreads();
  }
  const auto add = [&](int64_t bin, unsigned long long n) {
    if (counts) atomicAdd(reinterpret_cast<unsigned long long*>(counts) + bin, n);
    if (totals) atomicAdd(reinterpret_cast<unsigned long long*>(totals) + bin % experts, n);
  };
  for (int64_t i = int64_t{blockIdx.x} * threads + threadIdx.x; i < slots; i += int64_t{gridDim.x} * threads) {
    const int id = ids[i], scope = segment ? segment[i / top_k] : 0;
    if (id < 0 || scope < 0) continue;
    const int64_t bin = (counts ? int64_t{scope} * experts : 0) + id;
    if (shared) {
      atomicAdd(&local[bin], 1u);
    } else {
      add(bin, 1ull);
    }
  }
  if (!shared) return;
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < bins; i += threads)
    if (local[i]) add(i, local[i]);
}

template <class A, class C>
__global__ void __launch_bounds__(threads)
    fractions_kernel(A* fractions, const C* counts, int64_t scopes, int64_t experts) {
  const int64_t scope = warp_id();
  if (scope >= scopes) return;
  const C* const count = counts + scope * experts;
  double sum = 0;
  for (int64_t e = lane_id(); e < experts; e += warp_size) sum += static_cast<double>(count[e]);
  sum = warp_sum(sum);
  for (int64_t e = lane_id(); e < experts; e += warp_size)
    fractions[scope * experts + e] =
        static_cast<A>(sum != 0 ? static_cast<double>(count[e]) / sum : 1 / static_cast<double>(experts));
}

/// Sums over the scores of one token. All lanes have the same values.
struct TokenSums {
  double total, weighted;  // sum of the scores; sum of score * fraction
};

template <class A>
__device__ TokenSums sums_of(const A* scores, const A* fractions, int64_t experts) {
  TokenSums sums{0, 0};
  for (int64_t e = lane_id(); e < experts; e += warp_size) {
    const double p = static_cast<double>(scores[e]);
    sums.total += p;
    sums.weighted += p * static_cast<double>(fractions[e]);
  }
  return {warp_sum(sums.total), warp_sum(sums.weighted)};
}

/// Sets partials[block] to the sum of `mine` over the warps of the block. All lanes of a warp must have the same
/// `mine`.
__device__ void store_partial(double* partials, double mine) {
  __shared__ double scratch[warp_size];
  const double sum = block_sum(lane_id() == 0 ? mine : 0.0, scratch);
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

/// Coefficient of each scope: `scale`, multiplied by each[scope] if `each` is not null.
struct Coefficients {
  const double* each;
  double scale;
  __device__ double of(int scope) const { return each ? scale * each[scope] : scale; }
};

/// Returns dweighted * weight, rounded to A: the gradient of the loss without `share` (see RouterLossKernels).
template <class A>
__device__ double loss_gradient(const A* dweighted, A weight) {
  const A gradient = *dweighted * weight;
  return static_cast<double>(gradient);
}

template <class A>
__global__ void __launch_bounds__(threads)
    balance_kernel(double* partials, const A* scores, const int32_t* segment, const A* fractions,
                   Coefficients coefficients, int64_t tokens, int64_t experts) {
  double sum = 0;
  for (int64_t t = warp_id(); t < tokens; t += warp_count()) {
    const int scope = scope_of(segment, t);
    if (scope < 0) continue;
    const TokenSums sums = sums_of(scores + t * experts, fractions + scope * experts, experts);
    if (sums.total != 0) sum += coefficients.of(scope) * sums.weighted / sums.total;
  }
  store_partial(partials, sum);
}

template <class A>
__global__ void __launch_bounds__(threads)
    balance_backward_kernel(A* dscores, const A* dweighted, A weight, const A* scores, const int32_t* segment,
                            const A* fractions, Coefficients coefficients, int64_t tokens, int64_t experts) {
  const int64_t t = warp_id();
  if (t >= tokens) return;
  const int scope = scope_of(segment, t);
  const A* const fraction = fractions + (scope < 0 ? 0 : scope) * experts;
  double factor = 0, mean = 0;
  if (scope >= 0) {
    const TokenSums sums = sums_of(scores + t * experts, fraction, experts);
    if (sums.total != 0) {
      factor = coefficients.of(scope) * loss_gradient(dweighted, weight) / sums.total;
      mean = sums.weighted / sums.total;
    }
  }
  for (int64_t e = lane_id(); e < experts; e += warp_size)
    dscores[t * experts + e] = factor != 0 ? static_cast<A>(factor * (static_cast<double>(fraction[e]) - mean)) : A(0);
}

template <class A>
__global__ void __launch_bounds__(threads) z_kernel(double* partials, A* log_sum_exp, const A* logits,
                                                    const int32_t* segment, int64_t tokens, int64_t experts) {
  double sum = 0;
  for (int64_t t = warp_id(); t < tokens; t += warp_count()) {
    if (scope_of(segment, t) < 0) {
      if (lane_id() == 0) log_sum_exp[t] = 0;
      continue;
    }
    const A* const row = logits + t * experts;
    A top = -std::numeric_limits<A>::infinity();  // the maximum ignores NaN, but the sum does not
    for (int64_t e = lane_id(); e < experts; e += warp_size) top = row[e] > top ? row[e] : top;
    const double largest = static_cast<double>(warp_max(top));
    double total = 0;
    for (int64_t e = lane_id(); e < experts; e += warp_size) total += exp(static_cast<double>(row[e]) - largest);
    const double z = largest + log(warp_sum(total));
    if (lane_id() == 0) log_sum_exp[t] = static_cast<A>(z);
    sum += z * z;
  }
  store_partial(partials, sum);
}

template <class A>
__global__ void __launch_bounds__(threads)
    z_backward_kernel(A* dlogits, const A* dweighted, A weight, const A* logits, const A* log_sum_exp,
                      const int32_t* segment, int64_t tokens, int64_t experts, double scale) {
  const int64_t t = warp_id();
  if (t >= tokens) return;
  const bool counts = scope_of(segment, t) >= 0;
  const double z = static_cast<double>(log_sum_exp[t]), factor = 2 * z * scale * loss_gradient(dweighted, weight);
  for (int64_t e = lane_id(); e < experts; e += warp_size) {
    const int64_t i = t * experts + e;
    dlogits[i] = counts ? static_cast<A>(factor * exp(static_cast<double>(logits[i]) - z)) : A(0);
  }
}

/// Computes a RouterLoss. The loss is `scale` times the sum of the partial sums.
template <class A>
__global__ void __launch_bounds__(threads)
    finish_kernel(A* weighted, double* total, const double* partials, int count, double scale, A share, A weight) {
  __shared__ double scratch[warp_size];
  double sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += threads) sum += partials[i];
  sum = block_sum(sum, scratch);
  if (threadIdx.x != 0) return;
  const A value = static_cast<A>(scale * sum) * share;
  *weighted = value * weight;
  if (total) *total += static_cast<double>(value);
}

void require_segment(std::string_view op, const Tensor& segment, int64_t tokens, int64_t scopes) {
  if (segment.defined()) require_flat(op, "segment", segment, tokens);
  require(scopes > 0 || tokens == 0, "[", op, "] the number of scopes is ", scopes, ", and the number of tokens is ",
          tokens, "; expected at least 1 scope");
}

template <class A>
void finish(std::string_view op, Stream& stream, const RouterLoss& out, const Tensor& partials, double scale,
            const LossFactors& factors) {
  require_flat(op, "weighted", out.weighted, 1);
  if (out.total.defined()) require_flat(op, "total", out.total, 1);
  launch(op, finish_kernel<A>, 1, threads, stream, pointer<A>(out.weighted), pointer<double>(out.total),
         pointer<double>(partials), partials.numel(), scale, factors.share, factors.weight);
}

void count(Stream& stream, const Tensor& counts, const Tensor& totals, const Tensor& ids, const Tensor& segment) {
  const int64_t scopes = counts.defined() ? counts.dim(0) : 1, tokens = ids.dim(0), top_k = ids.dim(1);
  const int64_t experts = counts.defined() ? counts.dim(1) : totals.numel(), bins = scopes * experts;
  if (counts.defined()) require_flat("router_count", "counts", counts, bins);
  if (totals.defined()) require_flat("router_count", "totals", totals, experts);
  require_flat("router_count", "ids", ids, tokens * top_k);
  require_segment("router_count", segment, tokens, scopes);
  if (counts.defined() && bins > 0) {
    const auto queue = cuda_stream(stream).handle();
    check(cudaMemsetAsync(pointer<int64_t>(counts), 0, counts.bytes(), queue.get()), "router_count");
  }
  const bool shared = bins <= shared_bins;
  launch("router_count", count_kernel, blocks_for(stream, ids.numel(), threads * 4, 2), threads, stream,
         pointer<int64_t>(counts), pointer<int64_t>(totals), pointer<int32_t>(ids), pointer<int32_t>(segment),
         ids.numel(), top_k, experts, shared ? bins : 0, shared);
}

void fractions(Stream& stream, const Tensor& fractions, const Tensor& counts) {
  const int64_t scopes = counts.dim(0), experts = counts.dim(1);
  require_flat("router_fractions", "counts", counts, scopes * experts);
  require_shape("router_fractions", "fractions", fractions, counts.shape());
  require_flat("router_fractions", "fractions", fractions, scopes * experts);
  with_dtype<float, double>("router_fractions", fractions.dtype(), [&]<class A>() {
    const auto of = [&]<class C>() {
      launch("router_fractions", fractions_kernel<A, C>, warps_for(scopes), threads, stream, pointer<A>(fractions),
             pointer<C>(counts), scopes, experts);
    };
    with_dtype<int64_t, A>("router_fractions", counts.dtype(), of);
  });
}

/// Throws std::logic_error unless the shapes of the operands of a balance loss agree.
void require_balance(const Tensor& scores, const Tensor& segment, const Tensor& fractions, const Tensor& coefficients) {
  const int64_t scopes = fractions.dim(0), tokens = scores.dim(0), experts = scores.dim(1);
  require_flat("router_balance", "scores", scores, tokens * experts);
  require_shape("router_balance", "fractions", fractions, {scopes, experts});
  require_flat("router_balance", "fractions", fractions, scopes * experts);
  if (coefficients.defined()) require_flat("router_balance", "coefficients", coefficients, scopes);
  require_segment("router_balance", segment, tokens, scopes);
}

void balance(Stream& stream, const RouterLoss& out, const Tensor& scores, const Tensor& segment,
             const Tensor& fractions, const Tensor& coefficients, const LossFactors& factors) {
  const int64_t tokens = scores.dim(0), experts = scores.dim(1);
  require_balance(scores, segment, fractions, coefficients);
  const int64_t blocks = partial_sums(tokens);
  const Tensor partials = Tensor::empty({blocks}, Dtype::f64, scores.device());
  with_dtype<float, double>("router_balance", scores.dtype(), [&]<class A>() {
    launch("router_balance", balance_kernel<A>, blocks, threads, stream, pointer<double>(partials), pointer<A>(scores),
           pointer<int32_t>(segment), pointer<A>(fractions), Coefficients{pointer<double>(coefficients), factors.scale},
           tokens, experts);
    finish<A>("router_balance", stream, out, partials, 1, factors);
  });
}

void balance_backward(Stream& stream, const Tensor& dscores, const Tensor& dweighted, const Tensor& scores,
                      const Tensor& segment, const Tensor& fractions, const Tensor& coefficients,
                      const LossFactors& factors) {
  const int64_t tokens = scores.dim(0), experts = scores.dim(1);
  require_balance(scores, segment, fractions, coefficients);
  require_flat("router_balance", "dweighted", dweighted, 1);
  require_flat("router_balance", "dscores", dscores, tokens * experts);
  with_dtype<float, double>("router_balance", scores.dtype(), [&]<class A>() {
    launch("router_balance", balance_backward_kernel<A>, warps_for(tokens), threads, stream, pointer<A>(dscores),
           pointer<A>(dweighted), factors.weight, pointer<A>(scores), pointer<int32_t>(segment), pointer<A>(fractions),
           Coefficients{pointer<double>(coefficients), factors.scale}, tokens, experts);
  });
}

void z(Stream& stream, const RouterLoss& out, const Tensor& log_sum_exp, const Tensor& logits, const Tensor& segment,
       const LossFactors& factors) {
  const int64_t tokens = logits.dim(0), experts = logits.dim(1);
  require_flat("router_z", "logits", logits, tokens * experts);
  require_flat("router_z", "log_sum_exp", log_sum_exp, tokens);
  require_segment("router_z", segment, tokens, 1);
  const int64_t blocks = partial_sums(tokens);
  const Tensor partials = Tensor::empty({blocks}, Dtype::f64, logits.device());
  with_dtype<float, double>("router_z", logits.dtype(), [&]<class A>() {
    launch("router_z", z_kernel<A>, blocks, threads, stream, pointer<double>(partials), pointer<A>(log_sum_exp),
           pointer<A>(logits), pointer<int32_t>(segment), tokens, experts);
    finish<A>("router_z", stream, out, partials, factors.scale, factors);
  });
}

void z_backward(Stream& stream, const Tensor& dlogits, const Tensor& dweighted, const Tensor& logits,
                const Tensor& log_sum_exp, const Tensor& segment, const LossFactors& factors) {
  const int64_t tokens = logits.dim(0), experts = logits.dim(1);
  require_flat("router_z", "logits", logits, tokens * experts);
  require_flat("router_z", "dlogits", dlogits, tokens * experts);
  require_flat("router_z", "dweighted", dweighted, 1);
  require_flat("router_z", "log_sum_exp", log_sum_exp, tokens);
  require_segment("router_z", segment, tokens, 1);
  with_dtype<float, double>("router_z", logits.dtype(), [&]<class A>() {
    launch("router_z", z_backward_kernel<A>, warps_for(tokens), threads, stream, pointer<A>(dlogits),
           pointer<A>(dweighted), factors.weight, pointer<A>(logits), pointer<A>(log_sum_exp),
           pointer<int32_t>(segment), tokens, experts, factors.scale);
  });
}

}  // namespace
}  // namespace hexad::kernels::cuda

namespace hexad::kernels {

const RouterLossKernels RouterLossKernels::of_cuda{.count = cuda::count,
                                                   .fractions = cuda::fractions,
                                                   .balance = cuda::balance,
                                                   .balance_backward = cuda::balance_backward,
                                                   .z = cuda::z,
                                                   .z_backward = cuda::z_backward};

}  // namespace hexad::kernels
