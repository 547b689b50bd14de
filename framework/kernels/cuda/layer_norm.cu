#include "framework/kernels/cuda/row_groups.cuh"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cuda {

using namespace base;
namespace {

// held: maximum number of vectors of a row per thread. narrow_threads: number of threads of a block for narrow rows.
// max_threads: maximum number of threads of a block.
constexpr int held = 8, narrow_threads = 128, max_threads = 256;

template <class D, class A = sum_t<D>>
struct Forward {
  D* out;
  A* stats;
  const D *x, *gain, *bias;
  int64_t rows, width;
  A eps;
};

/// Normalises rows with one group of threads per row. The group keeps the row in registers.
template <class D>
__global__ void __launch_bounds__(max_threads) forward_rows(Forward<D> o, int lanes) {
  using A = sum_t<D>;
  constexpr int N = wide<D>;
  __shared__ A scratch[warp_size];
  const int group = static_cast<int>(threadIdx.x) / lanes, lane = static_cast<int>(threadIdx.x) - group * lanes;
  const int64_t row = int64_t{blockIdx.x} * (blockDim.x / lanes) + group;
  const int vectors = static_cast<int>(o.width / N);
  const int mine = row < o.rows ? vectors : 0;  // a group without a row only participates in the sums
  const A width = static_cast<A>(o.width);

  Words<D, N> x[held]{};
#pragma unroll
  for (int k = 0; k < held; ++k) {
    const int v = lane + k * lanes;
    if (v < mine) x[k] = load_words<N>(o.x + row * o.width + v * N);
  }
  A sum = 0, squares = 0;
#pragma unroll
  for (int k = 0; k < held; ++k) {
    const Vector<D, N> in = elements(x[k]);
#pragma unroll
    for (int e = 0; e < N; ++e) sum += to<A>(in.at[e]);
  }
  const A mean = group_sum(sum, lanes, scratch) / width;
#pragma unroll
  for (int k = 0; k < held; ++k) {
    keep_packed(x[k]);
    if (lane + k * lanes >= mine) continue;
    const Vector<D, N> in = elements(x[k]);
#pragma unroll
    for (int e = 0; e < N; ++e) squares += (to<A>(in.at[e]) - mean) * (to<A>(in.at[e]) - mean);
  }
  const A r = 1 / sqrt(group_sum(squares, lanes, scratch) / width + o.eps);
  if (mine > 0 && lane == 0) o.stats[2 * row] = mean, o.stats[2 * row + 1] = r;
#pragma unroll
  for (int k = 0; k < held; ++k) {
    const int v = lane + k * lanes;
    if (v >= mine) continue;
    keep_packed(x[k]);
    const Vector<D, N> in = elements(x[k]), gain = load<N>(o.gain + v * N);
    Vector<D, N> y, bias{};
    if (o.bias) bias = load<N>(o.bias + v * N);
#pragma unroll
    for (int e = 0; e < N; ++e) y.at[e] = to<D>((to<A>(in.at[e]) - mean) * r * to<A>(gain.at[e]) + to<A>(bias.at[e]));
    store(o.out + row * o.width + v * N, y);
  }
}

/// Normalises rows of any width and alignment. One block per row reads the row three times.
template <class D>
__global__ void __launch_bounds__(narrow_threads) forward_any(Forward<D> o) {
  using A = sum_t<D>;
  __shared__ A scratch[warp_size];
  const int64_t row = blockIdx.x;
  const D* x = o.x + row * o.width;
  A sum = 0, squares = 0;
  for (int64_t c = threadIdx.x; c < o.width; c += blockDim.x) sum += to<A>(x[c]);
  const A mean = block_sum(sum, scratch) / static_cast<A>(o.width);
  for (int64_t c = threadIdx.x; c < o.width; c += blockDim.x) squares += (to<A>(x[c]) - mean) * (to<A>(x[c]) - mean);
  const A r = 1 / sqrt(block_sum(squares, scratch) / static_cast<A>(o.width) + o.eps);
  if (threadIdx.x == 0) o.stats[2 * row] = mean, o.stats[2 * row + 1] = r;
  for (int64_t c = threadIdx.x; c < o.width; c += blockDim.x) {
    const A bias = o.bias ? to<A>(o.bias[c]) : A(0);
    o.out[row * o.width + c] = to<D>((to<A>(x[c]) - mean) * r * to<A>(o.gain[c]) + bias);
  }
}

template <class D, class A = sum_t<D>>
struct InputGradient {
  D* dx;
  const D *dy, *x, *gain;
  const A* stats;
  int64_t rows, width;
};

/// Computes dx = r * (g * dy - mean(g * dy) - n * mean(g * dy * n)) with n = (x - mean) * r. r is the inverse standard
/// deviation, and g is the gain.
template <class D>
__global__ void __launch_bounds__(max_threads) input_gradient_rows(InputGradient<D> o, int lanes) {
  using A = sum_t<D>;
  constexpr int N = wide<D>;
  __shared__ A scratch[warp_size];
  const int group = static_cast<int>(threadIdx.x) / lanes, lane = static_cast<int>(threadIdx.x) - group * lanes;
  const int64_t row = int64_t{blockIdx.x} * (blockDim.x / lanes) + group;
  const int vectors = static_cast<int>(o.width / N);
  const int mine = row < o.rows ? vectors : 0;  // a group without a row only participates in the sums
  const A width = static_cast<A>(o.width);
  const A mean = mine ? o.stats[2 * row] : A(0), r = mine ? o.stats[2 * row + 1] : A(0);

  Words<D, N> x[held]{}, dy[held]{};
#pragma unroll
  for (int k = 0; k < held; ++k) {
    const int v = lane + k * lanes;
    if (v >= mine) continue;
    x[k] = load_words<N>(o.x + row * o.width + v * N);
    dy[k] = load_words<N>(o.dy + row * o.width + v * N);
  }
  A sum_g = 0, sum_gn = 0;
#pragma unroll
  for (int k = 0; k < held; ++k) {
    const int v = lane + k * lanes;
    if (v >= mine) continue;
    const Vector<D, N> in = elements(x[k]), dout = elements(dy[k]), gain = load<N>(o.gain + v * N);
#pragma unroll
    for (int e = 0; e < N; ++e) {
      const A g = to<A>(gain.at[e]) * to<A>(dout.at[e]);
      sum_g += g;
      sum_gn += g * (to<A>(in.at[e]) - mean);
    }
  }
  const A mean_g = group_sum(sum_g, lanes, scratch) / width;
  const A back = group_sum(sum_gn, lanes, scratch) * r * r / width;
#pragma unroll
  for (int k = 0; k < held; ++k) {
    const int v = lane + k * lanes;
    if (v >= mine) continue;
    keep_packed(x[k]), keep_packed(dy[k]);
    const Vector<D, N> in = elements(x[k]), dout = elements(dy[k]), gain = load<N>(o.gain + v * N);
    Vector<D, N> y;
#pragma unroll
    for (int e = 0; e < N; ++e) {
      const A g = to<A>(gain.at[e]) * to<A>(dout.at[e]);
      y.at[e] = to<D>(r * (g - mean_g - (to<A>(in.at[e]) - mean) * back));
    }
    store(o.dx + row * o.width + v * N, y);
  }
}

/// Computes dx for rows of any width and alignment. One block per row reads the row twice.
template <class D>
__global__ void __launch_bounds__(narrow_threads) input_gradient_any(InputGradient<D> o) {
  using A = sum_t<D>;
  __shared__ A scratch[warp_size];
  const int64_t row = blockIdx.x, start = row * o.width;
  const A mean = o.stats[2 * row], r = o.stats[2 * row + 1], width = static_cast<A>(o.width);
  const auto weighted = [&](int64_t c) { return to<A>(o.gain[c]) * to<A>(o.dy[start + c]); };
  const auto centred = [&](int64_t c) { return to<A>(o.x[start + c]) - mean; };
  A sum_g = 0, sum_gn = 0;
  for (int64_t c = threadIdx.x; c < o.width; c += blockDim.x) {
    sum_g += weighted(c);
    sum_gn += weighted(c) * centred(c);
  }
  const A mean_g = block_sum(sum_g, scratch) / width, back = block_sum(sum_gn, scratch) * r * r / width;
  for (int64_t c = threadIdx.x; c < o.width; c += blockDim.x)
    o.dx[start + c] = to<D>(r * (weighted(c) - mean_g - centred(c) * back));
}

// Size of a thread block of the weight gradient: number of threads along columns, and along rows.
constexpr int column_threads = 32, row_threads = 8;

template <class D, class A = sum_t<D>>
struct WeightGradient {
  A* sums;  // [blocks of rows, 2, width]: dgain, dbias
  const D *dy, *x;
  const A* stats;
  int64_t rows, width;
};

/// Computes the sums of dgain and dbias over rows [begin, end), the rows of this block of threads. The order of
/// addition in a column does not depend on N.
template <class D, int N>
__global__ void __launch_bounds__(column_threads* row_threads) column_sums(WeightGradient<D> o) {
  using A = sum_t<D>;
  __shared__ A shared[2][N][row_threads][column_threads];
  const int tx = static_cast<int>(threadIdx.x) % column_threads, ty = static_cast<int>(threadIdx.x) / column_threads;
  const int64_t column = (int64_t{blockIdx.x} * column_threads + tx) * N;
  const int64_t begin = o.rows * blockIdx.y / gridDim.y, end = o.rows * (int64_t{blockIdx.y} + 1) / gridDim.y;
  A dgain[N]{}, dbias[N]{};
  if (column < o.width) {
#pragma unroll 4
    for (int64_t row = begin + ty; row < end; row += row_threads) {
      const Vector<D, N> dy = load<N>(o.dy + row * o.width + column), x = load<N>(o.x + row * o.width + column);
      const A mean = o.stats[2 * row], r = o.stats[2 * row + 1];
#pragma unroll
      for (int e = 0; e < N; ++e) {
        dgain[e] += to<A>(dy.at[e]) * (to<A>(x.at[e]) - mean) * r;
        dbias[e] += to<A>(dy.at[e]);
      }
    }
  }
#pragma unroll
  for (int e = 0; e < N; ++e) {
    shared[0][e][ty][tx] = dgain[e];
    shared[1][e][ty][tx] = dbias[e];
  }
  __syncthreads();
  if (column >= o.width) return;
  for (int i = ty; i < 2 * N; i += row_threads) {
    const int which = i / N, e = i % N;
    A sum = 0;
    for (int y = 0; y < row_threads; ++y) sum += shared[which][e][y][tx];
    o.sums[(2 * int64_t{blockIdx.y} + which) * o.width + column + e] = sum;
  }
}

template <class A>
__global__ void __launch_bounds__(item_threads)
    add_sums(A* dgain, A* dbias, const A* sums, int64_t blocks, int64_t width) {
  const int64_t c = item_of_thread<1>(0);
  if (c >= width) return;
  A gain = 0, bias = 0;
  for (int64_t b = 0; b < blocks; ++b) {
    gain += sums[2 * b * width + c];
    bias += sums[(2 * b + 1) * width + c];
  }
  dgain[c] += gain;
  if (dbias) dbias[c] += bias;
}

int64_t rows_of_shape(const Shape& shape) {
  int64_t rows = 1;
  for (int d = 0; d + 1 < shape.rank(); ++d) rows *= shape[d];
  return rows;
}

bool on_vectors(std::initializer_list<const void*> pointers) {
  return std::all_of(pointers.begin(), pointers.end(),
                     [](const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; });
}

/// Launches `rows` if a row fits into registers and is aligned to vectors, otherwise `any`.
template <class D, class Operands>
void launch_rows(Stream& stream, void (*rows)(Operands, int), void (*any)(Operands), const Operands& o, bool aligned) {
  const auto blocks_of_rows = [&](int each) { return blocks_of(o.rows, each); };
  const int64_t vectors = o.width / wide<D>;
  if (aligned && o.width % wide<D> == 0 && vectors <= int64_t{held} * max_threads) {
    const ThreadGroups g = ThreadGroups::of(vectors, held, narrow_threads);
    return launch("layer_norm", rows, blocks_of_rows(g.rows), g.threads, stream, o, g.lanes);
  }
  launch("layer_norm", any, blocks_of_rows(1), narrow_threads, stream, o);
}

void forward(Stream& stream, const Tensor& out, const Tensor& stats, const Tensor& x, const Tensor& gain,
             const Tensor& bias, double eps) {
  const int64_t width = x.dim(-1), rows = rows_of_shape(x.shape());
  require_flat("layer_norm", "x", x, x.numel());
  require_flat("layer_norm", "out", out, x.numel());
  require_flat("layer_norm", "stats", stats, 2 * rows);
  require_flat("layer_norm", "gain", gain, width);
  if (bias.defined()) require_flat("layer_norm", "bias", bias, width);
  with_dtype<float, bf16, double>("layer_norm", x.dtype(), [&]<class T>() {
    using D = device_t<T>;
    using A = accumulator_t<T>;
    const Forward<D> o{.out = pointer<T>(out),
                       .stats = pointer<A>(stats),
                       .x = pointer<T>(x),
                       .gain = pointer<T>(gain),
                       .bias = pointer<T>(bias),
                       .rows = rows,
                       .width = width,
                       .eps = static_cast<A>(eps)};
    launch_rows<D>(stream, forward_rows<D>, forward_any<D>, o, on_vectors({o.out, o.x, o.gain, o.bias}));
  });
}

void input_gradient(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& gain,
                    const Tensor& stats) {
  const int64_t width = x.dim(-1), rows = rows_of_shape(x.shape());
  for (const auto& [name, t] : {std::pair{"x", x}, {"dx", dx}, {"dy", dy}})
    require_flat("layer_norm", name, t, x.numel());
  require_flat("layer_norm", "stats", stats, 2 * rows);
  require_flat("layer_norm", "gain", gain, width);
  with_dtype<float, bf16, double>("layer_norm", x.dtype(), [&]<class T>() {
    using D = device_t<T>;
    const InputGradient<D> o{.dx = pointer<T>(dx),
                             .dy = pointer<T>(dy),
                             .x = pointer<T>(x),
                             .gain = pointer<T>(gain),
                             .stats = pointer<accumulator_t<T>>(stats),
                             .rows = rows,
                             .width = width};
    launch_rows<D>(stream, input_gradient_rows<D>, input_gradient_any<D>, o, on_vectors({o.dx, o.dy, o.x, o.gain}));
  });
}

void weight_gradient(Stream& stream, const Tensor& dgain, const Tensor& dbias, const Tensor& dy, const Tensor& x,
                     const Tensor& stats) {
  // Minimum number of rows per block if there are several blocks, and maximum number of blocks.
  constexpr int64_t fewest_rows = 64, max_blocks = 64;
  const int64_t width = x.dim(-1), rows = rows_of_shape(x.shape());
  require_flat("layer_norm", "dgain", dgain, width);
  if (dbias.defined()) require_flat("layer_norm", "dbias", dbias, width);
  require_flat("layer_norm", "dy", dy, rows * width);
  require_flat("layer_norm", "x", x, rows * width);
  require_flat("layer_norm", "stats", stats, 2 * rows);
  if (rows == 0) return;
  const int64_t blocks = std::clamp<int64_t>(rows / fewest_rows, 1, max_blocks);
  with_dtype<float, bf16, double>("layer_norm", x.dtype(), [&]<class T>() {
    using D = device_t<T>;
    using A = accumulator_t<T>;
    const Tensor sums = Tensor::empty({blocks, 2, width}, accumulator_dtype(x.dtype()), x.device());
    const WeightGradient<D> o{.sums = pointer<A>(sums),
                              .dy = pointer<T>(dy),
                              .x = pointer<T>(x),
                              .stats = pointer<A>(stats),
                              .rows = rows,
                              .width = width};
    const bool vectors = width % wide<D> == 0 && on_vectors({o.dy, o.x});
    const int64_t columns = int64_t{column_threads} * (vectors ? wide<D> : 1);
    launch("layer_norm", vectors ? column_sums<D, wide<D>> : column_sums<D, 1>,
           Blocks(blocks_of(width, columns), blocks), column_threads * row_threads, stream, o);
    launch("layer_norm", add_sums<A>, blocks_of<1>(Items<1>{width, width}), item_threads, stream, pointer<A>(dgain),
           pointer<A>(dbias), o.sums, blocks, width);
  });
}

}  // namespace
}  // namespace hexad::kernels::cuda

namespace hexad::kernels {

const LayerNormKernels LayerNormKernels::of_cuda{
    .forward = cuda::forward, .input_gradient = cuda::input_gradient, .weight_gradient = cuda::weight_gradient};

}  // namespace hexad::kernels
