#include <cuda_pipeline.h>

#include <limits>

#include "framework/kernels/cuda/cuda_properties.h"
#include "framework/kernels/cuda/products/multiprocessors.h"
#include "framework/kernels/cuda/vectors.cuh"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cuda {

using namespace base;
namespace {

/// Operands of a launch. L is the dtype of the logits, and D the dtype of dlogits; dlogits is null if no gradient is
/// needed.
template <class L, class D>
struct Operands {
  using A = sum_t<L>;
  A* losses;
  D* dlogits;
  const L* logits;
  const int32_t* targets;
  int64_t rows, vocabulary;
  A scale;
};

/// Returns the logit of the target, or NaN if the target is at least the size of the vocabulary. The loss is then NaN,
/// and the step is skipped.
template <class L, class D>
__device__ __forceinline__ sum_t<L> logit_of(const Operands<L, D>& o, int64_t row, int32_t target) {
  using A = sum_t<L>;
  return target < o.vocabulary ? to<A>(o.logits[row * o.vocabulary + target]) : std::numeric_limits<A>::quiet_NaN();
}

// Maximum number of elements of a row per thread, and maximum number of threads. A block can hold rows of up to 32768
// elements. On cards that permit only 99 KiB of shared memory, a block can hold rows of up to 24576 elements in f32.
constexpr int held_elements = 32, max_threads = 1024;
template <class L>
constexpr int held = held_elements / wide<L>;  // vectors of a row per thread

/// Returns the number of threads that losses_of_rows() needs to keep a row in registers.
template <class L>
int threads_of_row(int64_t vocabulary) {
  return static_cast<int>(blocks_of(vocabulary / wide<L>, held<L> * warp_size)) * warp_size;
}
/// Returns the bytes of shared memory of losses_of_rows(): the next row, and the scratch of sums over the block.
template <class L>
constexpr size_t shared_of_rows(int threads) {
  return static_cast<size_t>(threads) * held_elements * sizeof(L) + warp_size * sizeof(float);
}
/// True if losses_of_rows() can compute rows of `vocabulary` elements on this card.
template <class L>
bool fits_block(const device::cuda::Card& card, int64_t vocabulary) {
  return vocabulary <= int64_t{held_elements} * max_threads &&
         shared_of_rows<L>(threads_of_row<L>(vocabulary)) <= card.shared_memory();
}

/// Computes rows that fit into the registers of a block. Each block iterates over rows. While it computes a row, the
/// next row is copied to shared memory. The copy needs no barrier, because each thread reads only elements that it
/// copied.
template <class L, class D>
__global__ void __launch_bounds__(max_threads) losses_of_rows(Operands<L, D> o) {
  constexpr int N = wide<L>, held = cuda::held<L>;
  const int threads = static_cast<int>(blockDim.x), thread = static_cast<int>(threadIdx.x);
  float4* const next = &dynamic_shared<float4>();                          // [held][threads], elements of dtype L
  float* const scratch = reinterpret_cast<float*>(next + held * threads);  // [warp_size]
  const int vectors = static_cast<int>(o.vocabulary / N);
  const auto fetch = [&](int64_t row) {
#pragma unroll
    for (int k = 0; k < held; ++k) {
      const int v = thread + k * threads;
      if (row < o.rows && v < vectors)
        __pipeline_memcpy_async(&next[v], o.logits + row * o.vocabulary + v * N, sizeof(float4));
    }
    __pipeline_commit();
  };

  fetch(blockIdx.x);
  for (int64_t row = blockIdx.x; row < o.rows; row += gridDim.x) {
    const int32_t target = o.targets[row];
    // The logit of the target must be read before the gradient is written, because dlogits may be logits.
    const float at_target = target >= 0 && thread == 0 ? logit_of(o, row, target) : 0.0f;
    __pipeline_wait_prior(0);
    constexpr float lowest = std::numeric_limits<float>::lowest();
    Vector<float, N> x[held];
    float largest = lowest, sum = 0;
#pragma unroll
    for (int k = 0; k < held; ++k) {
      const int v = thread + k * threads;
      if (v >= vectors) continue;
      const Vector<L, N> given = load<N>(reinterpret_cast<const L*>(&next[v]));
#pragma unroll
      for (int e = 0; e < N; ++e) x[k].at[e] = to<float>(given.at[e]);
#pragma unroll
      for (int e = 0; e < N; ++e) largest = x[k].at[e] > largest ? x[k].at[e] : largest;
    }
    fetch(row + gridDim.x);

    const bool ignored = target < 0, gradient = o.dlogits && !ignored && o.scale != 0;
    largest = block_max(largest, scratch);
#pragma unroll
    for (int k = 0; k < held; ++k) {
      if (thread + k * threads >= vectors) continue;
#pragma unroll
      for (int e = 0; e < N; ++e) {
        x[k].at[e] = expf(x[k].at[e] - largest);
        sum += x[k].at[e];
      }
    }
    sum = block_sum(sum, scratch);
    if (thread == 0) o.losses[row] = ignored ? 0.0f : logf(sum) - (at_target - largest);
    if (!o.dlogits) continue;
    const float factor = o.scale / sum;
#pragma unroll
    for (int k = 0; k < held; ++k) {
      const int v = thread + k * threads;
      if (v >= vectors) continue;
      Vector<D, N> y;
#pragma unroll
      for (int e = 0; e < N; ++e) {
        const float onehot = v * N + e == target ? o.scale : 0.0f;
        y.at[e] = to<D>(gradient ? x[k].at[e] * factor - onehot : 0.0f);
      }
      store_once(o.dlogits + row * o.vocabulary + v * N, y);
    }
  }
}

/// The maximum of the values that a thread has read, and the sum of their exponentials relative to this maximum.
template <class A>
struct Running {
  A largest = std::numeric_limits<A>::lowest(), sum = 0;

  template <class L, int N>
  __device__ __forceinline__ void take(const Vector<L, N>& given) {
    Vector<A, N> x;
#pragma unroll
    for (int e = 0; e < N; ++e) x.at[e] = to<A>(given.at[e]);
    A here = largest;
#pragma unroll
    for (int e = 0; e < N; ++e) here = x.at[e] > here ? x.at[e] : here;
    sum *= exp(largest - here);
    largest = here;
#pragma unroll
    for (int e = 0; e < N; ++e) sum += exp(x.at[e] - largest);
  }
};

constexpr int any_threads = 512;

/// Computes rows of any length and alignment in vectors of N elements. There is one block per row. The block reads the
/// row for the sum and, if it computes a gradient, a second time for the gradient.
template <class L, class D, int N>
__global__ void __launch_bounds__(any_threads) losses_any(Operands<L, D> o) {
  using A = sum_t<L>;
  constexpr int at_once = 4;
  __shared__ A scratch[warp_size];
  const int64_t row = blockIdx.x, start = row * o.vocabulary;
  const int32_t target = o.targets[row];
  const bool ignored = target < 0;
  A largest = 0, sum = 1;
  if (!ignored) {
    Running<A> mine;
    for (int64_t top = threadIdx.x * N; top < o.vocabulary; top += any_threads * N * at_once) {
      Vector<L, N> x[at_once];
#pragma unroll
      for (int u = 0; u < at_once; ++u)
        if (top + u * any_threads * N < o.vocabulary) x[u] = load<N>(o.logits + start + top + u * any_threads * N);
#pragma unroll
      for (int u = 0; u < at_once; ++u)
        if (top + u * any_threads * N < o.vocabulary) mine.take(x[u]);
    }
    // The logit of the target must be read before the gradient is written, because dlogits may be logits.
    const A at_target = threadIdx.x == 0 ? logit_of(o, row, target) : A(0);
    largest = block_max(mine.largest, scratch);
    sum = block_sum(mine.sum * exp(mine.largest - largest), scratch);
    if (threadIdx.x == 0) o.losses[row] = log(sum) - (at_target - largest);
  } else if (threadIdx.x == 0) {
    o.losses[row] = 0;
  }
  if (!o.dlogits) return;
  const bool gradient = !ignored && o.scale != 0;
  const A factor = o.scale / sum;
  for (int64_t c = threadIdx.x * N; c < o.vocabulary; c += any_threads * N) {
    Vector<L, N> x{};
    if (gradient) x = load<N>(o.logits + start + c);
    Vector<D, N> y;
#pragma unroll
    for (int e = 0; e < N; ++e) {
      const A onehot = c + e == target ? o.scale : A(0);
      y.at[e] = to<D>(gradient ? exp(to<A>(x.at[e]) - largest) * factor - onehot : A(0));
    }
    store_once(o.dlogits + start + c, y);
  }
}

// Uses only the multiprocessors that products may use, because the blocks divide the rows in advance. If communication
// held a multiprocessor, the blocks of this multiprocessor would begin after all other blocks have ended.
template <class L, class D>
void launch_rows(Stream& stream, const Operands<L, D>& o) {
  const int threads = threads_of_row<L>(o.vocabulary);
  const int64_t blocks =
      std::min<int64_t>(o.rows, multiprocessors_of_products(cuda_stream(stream).card()) * (max_threads / threads));
  launch_shared<shared_of_rows<L>(max_threads)>("cross_entropy", losses_of_rows<L, D>, blocks, threads,
                                                shared_of_rows<L>(threads), stream, o);
}

template <class L, class D>
void launch_any(Stream& stream, const Operands<L, D>& o) {
  if constexpr (std::is_same_v<sum_t<L>, float>) {
    constexpr int N = wide<L>;
    if (multiples_of(N, sizeof(L), o.logits, {o.vocabulary}) && multiples_of(N, sizeof(D), o.dlogits, {})) {
      if (fits_block<L>(cuda_stream(stream).card(), o.vocabulary)) return launch_rows(stream, o);
      return launch("cross_entropy", losses_any<L, D, N>, o.rows, any_threads, stream, o);
    }
  }
  launch("cross_entropy", losses_any<L, D, 1>, o.rows, any_threads, stream, o);
}

void forward(Stream& stream, const Tensor& losses, const Tensor& dlogits, const Tensor& logits, const Tensor& targets,
             double scale) {
  const int64_t vocabulary = logits.dim(-1), rows = targets.numel();
  require_flat("cross_entropy", "logits", logits, rows * vocabulary);
  require_flat("cross_entropy", "losses", losses, rows);
  require_flat("cross_entropy", "targets", targets, rows);
  if (dlogits.defined()) require_flat("cross_entropy", "dlogits", dlogits, rows * vocabulary);
  if (rows == 0) return;
  with_dtype<float, bf16, double>("cross_entropy", logits.dtype(), [&]<class L>() {
    using A = accumulator_t<L>;
    const auto compute = [&]<class T>() {
      launch_any(stream, Operands<device_t<L>, device_t<T>>{.losses = pointer<A>(losses),
                                                            .dlogits = pointer<T>(dlogits),
                                                            .logits = pointer<L>(logits),
                                                            .targets = pointer<int32_t>(targets),
                                                            .rows = rows,
                                                            .vocabulary = vocabulary,
                                                            .scale = static_cast<A>(scale)});
    };
    const Dtype of_gradient = dlogits.defined() ? dlogits.dtype() : logits.dtype();
    if constexpr (std::is_same_v<L, bf16>) {
      with_dtype<bf16>("cross_entropy", of_gradient, compute);
    } else {
      with_dtype<float, bf16, double>("cross_entropy", of_gradient, compute);
    }
  });
}

}  // namespace
}  // namespace hexad::kernels::cuda

namespace hexad::kernels {

const CrossEntropyKernels CrossEntropyKernels::of_cuda{.forward = cuda::forward, .block_rows = cuda::block_rows};

}  // namespace hexad::kernels
