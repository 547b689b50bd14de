#include <cuda_pipeline.h>

#include <limits>

#include "framework/kernels/cuda/cuda_properties.h"
#include "framework/kernels/cuda/products/multiprocessors.h"
#include "framework/kernels/cuda/vectors.cuh"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cuda {

using namespace base;
namespace {

/// Operands of a launch. D is the dtype of dlogits; dlogits is null if no gradient is needed.
template <class A, class D>
struct Operands {
  A* losses;
  D* dlogits;
  const A* logits;
  const int32_t* targets;
  int64_t rows, vocabulary;
  A scale;
};

/// Returns the logit of the target, or NaN if the target is not below the size of the vocabulary. The loss is then NaN,
/// and the step is skipped.
template <class A, class D>
__device__ __forceinline__ A logit_of(const Operands<A, D>& o, int64_t row, int32_t target) {
  return target < o.vocabulary ? o.logits[row * o.vocabulary + target] : std::numeric_limits<A>::quiet_NaN();
}

// Maximum number of vectors of a row per thread, and maximum number of threads. A block can hold rows of up to 32768
// elements, but only up to 24576 elements on cards that permit 99 KiB of shared memory.
constexpr int held = 8, max_threads = 1024;
constexpr int row_elements = 4;  // f32 elements in 16 bytes

/// Returns the number of threads with which losses_of_rows() holds a row.
int threads_of_row(int64_t vocabulary) {
  return static_cast<int>(blocks_of(vocabulary / row_elements, held * warp_size)) * warp_size;
}
/// Returns the bytes of shared memory of losses_of_rows(): the next row, and the scratch of sums over the block.
constexpr size_t shared_of_rows(int threads) {
  return static_cast<size_t>(threads) * held * sizeof(float4) + warp_size * sizeof(float);
}
/// True if losses_of_rows() can compute rows of `vocabulary` elements on this card.
bool fits_block(const device::cuda::Card& card, int64_t vocabulary) {
  return vocabulary <= int64_t{row_elements} * held * max_threads &&
         shared_of_rows(threads_of_row(vocabulary)) <= card.shared_memory();
}

/// Computes rows that fit into the registers of a block. Each block iterates over rows. While it computes a row, the
/// next row is copied to shared memory. The copy needs no barrier, because each thread reads only elements that it
/// copied.
template <class D>
__global__ void __launch_bounds__(max_threads) losses_of_rows(Operands<float, D> o) {
  constexpr int N = row_elements;
  const int threads = static_cast<int>(blockDim.x), thread = static_cast<int>(threadIdx.x);
  float4* const next = &dynamic_shared<float4>();                          // [held][threads]
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
      x[k] = load<N>(reinterpret_cast<const float*>(&next[v]));
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

  template <int N>
  __device__ __forceinline__ void take(const Vector<A, N>& x) {
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
template <class A, class D, int N>
__global__ void __launch_bounds__(any_threads) losses_any(Operands<A, D> o) {
  constexpr int at_once = 4;
  __shared__ A scratch[warp_size];
  const int64_t row = blockIdx.x, start = row * o.vocabulary;
  const int32_t target = o.targets[row];
  const bool ignored = target < 0;
  A largest = 0, sum = 1;
  if (!ignored) {
    Running<A> mine;
    for (int64_t top = threadIdx.x * N; top < o.vocabulary; top += any_threads * N * at_once) {
      Vector<A, N> x[at_once];
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
    Vector<A, N> x{};
    if (gradient) x = load<N>(o.logits + start + c);
    Vector<D, N> y;
#pragma unroll
    for (int e = 0; e < N; ++e) {
      const A onehot = c + e == target ? o.scale : A(0);
      y.at[e] = to<D>(gradient ? exp(x.at[e] - largest) * factor - onehot : A(0));
    }
    store_once(o.dlogits + start + c, y);
  }
}

// Uses only the multiprocessors that products may use, because the blocks divide the rows in advance. If communication
// held a multiprocessor, the blocks of this multiprocessor would begin after all other blocks have ended.
template <class D>
void launch_rows(Stream& stream, const Operands<float, D>& o) {
  const int threads = threads_of_row(o.vocabulary);
  const int64_t blocks =
      std::min<int64_t>(o.rows, multiprocessors_of_products(cuda_stream(stream).card()) * (max_threads / threads));
  launch_shared<shared_of_rows(max_threads)>("cross_entropy", losses_of_rows<D>, blocks, threads,
                                             shared_of_rows(threads), stream, o);
}

template <class A, class D>
void launch_any(Stream& stream, const Operands<A, D>& o) {
  if constexpr (std::is_same_v<A, float>) {
    constexpr int N = row_elements;
    if (multiples_of(N, sizeof(A), o.logits, {o.vocabulary}) && multiples_of(N, sizeof(D), o.dlogits, {})) {
      if (fits_block(cuda_stream(stream).card(), o.vocabulary)) return launch_rows(stream, o);
      return launch("cross_entropy", losses_any<A, D, N>, o.rows, any_threads, stream, o);
    }
  }
  launch("cross_entropy", losses_any<A, D, 1>, o.rows, any_threads, stream, o);
}

void forward(Stream& stream, const Tensor& losses, const Tensor& dlogits, const Tensor& logits, const Tensor& targets,
             double scale) {
  const int64_t vocabulary = logits.dim(-1), rows = targets.numel();
  require_flat("cross_entropy", "logits", logits, rows * vocabulary);
  require_flat("cross_entropy", "losses", losses, rows);
  require_flat("cross_entropy", "targets", targets, rows);
  if (dlogits.defined()) require_flat("cross_entropy", "dlogits", dlogits, rows * vocabulary);
  if (rows == 0) return;
  with_dtype<float, double>("cross_entropy", logits.dtype(), [&]<class A>() {
    with_dtype<float, bf16, double>("cross_entropy", dlogits.defined() ? dlogits.dtype() : logits.dtype(),
                                    [&]<class T>() {
                                      using D = device_t<T>;
                                      launch_any(stream, Operands<A, D>{.losses = pointer<A>(losses),
                                                                        .dlogits = pointer<T>(dlogits),
                                                                        .logits = pointer<A>(logits),
                                                                        .targets = pointer<int32_t>(targets),
                                                                        .rows = rows,
                                                                        .vocabulary = vocabulary,
                                                                        .scale = static_cast<A>(scale)});
                                    });
  });
}

}  // namespace
}  // namespace hexad::kernels::cuda

namespace hexad::kernels {

const CrossEntropyKernels CrossEntropyKernels::of_cuda{.forward = cuda::forward, .block_rows = cuda::block_rows};

}  // namespace hexad::kernels
