#include "framework/kernels/cuda/cuda_properties.h"
#include "framework/kernels/cuda/row_groups.cuh"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cuda {

using namespace base;
namespace {

// Number of threads of a block for narrow rows, and maximum number of threads. Rows that are too wide for the maximum
// are not held in registers.
constexpr int narrow_threads = 128, max_threads = 256;
// Number of threads of a block in backward, and maximum number of threads if each thread has `held` vectors. Both
// numbers are large, because there is only one block per partial sum.
constexpr int backward_threads = 256;
constexpr int max_backward_threads(int held) { return held == 1 ? 256 : held == 2 ? 512 : 384; }

template <class D, class A = sum_t<D>>
struct Forward {
  Rows<D> out, sum;
  A* inverse_rms;
  Rows<D> x, addend;
  const D* gain;
  A eps;
};

/// Normalises rows with one group of threads per row. The row is kept in registers, with at most `held` vectors per
/// thread.
template <class D, int held>
__global__ void __launch_bounds__(held <= 4 ? narrow_threads : max_threads) forward_rows(Forward<D> o, int lanes) {
  using A = sum_t<D>;
  constexpr int N = wide<D>;
  __shared__ A scratch[warp_size];
  const int group = static_cast<int>(threadIdx.x) / lanes, lane = static_cast<int>(threadIdx.x) - group * lanes;
  const int64_t row = int64_t{blockIdx.x} * (blockDim.x / lanes) + group;
  const int vectors = static_cast<int>(o.x.width / N);
  const bool live = row < o.x.count;

  Words<D, N> x[held]{}, addend[held]{}, gain[held]{};
#pragma unroll
  for (int k = 0; k < held; ++k) {
    const int v = lane + k * lanes;
    if (!live || v >= vectors) continue;
    x[k] = load_words<N>(row_at(o.x, row) + v * N);
    if (o.addend.data) addend[k] = load_words<N>(row_at(o.addend, row) + v * N);
    gain[k] = load_words<N>(o.gain + v * N);
  }
  A squares = 0;
#pragma unroll
  for (int k = 0; k < held; ++k) {
    Vector<D, N> sum = elements(x[k]);
    if (o.addend.data) {
      const Vector<D, N> more = elements(addend[k]);
#pragma unroll
      for (int e = 0; e < N; ++e) sum.at[e] = to<D>(to<A>(sum.at[e]) + to<A>(more.at[e]));
      x[k] = words_of(sum);
      const int v = lane + k * lanes;
      if (live && v < vectors) store(row_at(o.sum, row) + v * N, sum);
    }
#pragma unroll
    for (int e = 0; e < N; ++e) squares += to<A>(sum.at[e]) * to<A>(sum.at[e]);
  }
  const A r = 1 / sqrt(group_sum(squares, lanes, scratch) / static_cast<A>(o.x.width) + o.eps);
  if (live && lane == 0) o.inverse_rms[row] = r;
#pragma unroll
  for (int k = 0; k < held; ++k) {
    const int v = lane + k * lanes;
    if (!live || v >= vectors) continue;
    keep_packed(x[k]);
    const Vector<D, N> sum = elements(x[k]), weight = elements(gain[k]);
    Vector<D, N> y;
#pragma unroll
    for (int e = 0; e < N; ++e) y.at[e] = to<D>(to<A>(sum.at[e]) * r * to<A>(weight.at[e]));
    store(row_at(o.out, row) + v * N, y);
  }
}

/// Normalises rows of any width and alignment. One block per row first writes the sum, if there is an addend, and then
/// reads the row or the sum twice.
template <class D>
__global__ void __launch_bounds__(narrow_threads) forward_any(Forward<D> o) {
  using A = sum_t<D>;
  __shared__ A scratch[warp_size];
  const int64_t row = blockIdx.x;
  // The loops need no barrier between them, because each thread reads only elements of `sum` that it wrote.
  const D* x = row_at(o.x, row);
  if (o.addend.data) {
    const D* addend = row_at(o.addend, row);
    D* sum = row_at(o.sum, row);
    for (int64_t c = threadIdx.x; c < o.x.width; c += blockDim.x) sum[c] = to<D>(to<A>(x[c]) + to<A>(addend[c]));
    x = sum;
  }
  A squares = 0;
  for (int64_t c = threadIdx.x; c < o.x.width; c += blockDim.x) squares += to<A>(x[c]) * to<A>(x[c]);
  const A r = 1 / sqrt(block_sum(squares, scratch) / static_cast<A>(o.x.width) + o.eps);
  if (threadIdx.x == 0) o.inverse_rms[row] = r;
  D* out = row_at(o.out, row);
  for (int64_t c = threadIdx.x; c < o.x.width; c += blockDim.x) out[c] = to<D>(to<A>(x[c]) * r * to<A>(o.gain[c]));
}

template <class D, class A = sum_t<D>>
struct Backward {
  Rows<D> dx;
  A* partials;
  Rows<D> dy, x;
  const D* gain;
  const A* inverse_rms;
  Rows<D> dresidual;

  /// Returns the first row of block p. The block sums the gradient of the gain over rows [first(p), first(p + 1)).
  __device__ int64_t first(int64_t p) const { return x.count * p / gridDim.x; }
};

/// Sums each of `rows` values over the threads of a group, with at most one barrier. Two consecutive calls must use
/// different values of `phase`, because some threads may still read the sums of the first call.
template <int rows, class A>
__device__ __forceinline__ void group_sums(A (&x)[rows], int lanes, A (&scratch)[2][rows][warp_size], int phase) {
  if (lanes <= warp_size) {
#pragma unroll
    for (int r = 0; r < rows; ++r) x[r] = group_sum(x[r], lanes, static_cast<A*>(nullptr));
    return;
  }
  const int warps = static_cast<int>(blockDim.x) / warp_size, lane = static_cast<int>(threadIdx.x) % warp_size;
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    x[r] = warp_sum(x[r]);
    if (lane == 0) scratch[phase][r][threadIdx.x / warp_size] = x[r];
  }
  __syncthreads();
#pragma unroll
  for (int r = 0; r < rows; ++r) x[r] = warp_sum(lane < warps ? scratch[phase][r][lane] : A(0));
}

/// Computes dx = dresidual + r * (g * dy - n * mean(g * dy * n)), with n = x * r. r is the inverse root mean square,
/// and g is the gain. Each block also computes one partial sum of the gain's gradient. Each thread has `held` vectors
/// of columns in every row of its group. A thread processes `rows` rows at a time, with the loads of these rows in
/// flight together.
template <class D, int held, int rows>
__global__ void __launch_bounds__(max_backward_threads(held)) backward_rows(Backward<D> o, int lanes) {
  using A = sum_t<D>;
  constexpr int N = wide<D>;
  __shared__ A scratch[2][rows][warp_size];
  __shared__ A sums[held * N][backward_threads];
  const int groups = static_cast<int>(blockDim.x) / lanes;
  const int group = static_cast<int>(threadIdx.x) / lanes, lane = static_cast<int>(threadIdx.x) - group * lanes;
  const int vectors = static_cast<int>(o.x.width / N);
  const A width = static_cast<A>(o.x.width);
  const int64_t end = o.first(int64_t{blockIdx.x} + 1);

  Words<D, N> gain[held]{};
  A dgain[held][N]{};
#pragma unroll
  for (int k = 0; k < held; ++k)
    if (lane + k * lanes < vectors) gain[k] = load_words<N>(o.gain + (lane + k * lanes) * N);

  int phase = 0;
  for (int64_t top = o.first(blockIdx.x); top < end; top += int64_t{groups} * rows) {
    Words<D, N> x[rows][held]{}, dy[rows][held]{}, dresidual[rows][held]{};
    A inverse[rows]{}, dot[rows]{};
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      const int64_t row = top + r * groups + group;
      if (row >= end) continue;
      inverse[r] = o.inverse_rms[row];
      const D *in = row_at(o.x, row), *dout = row_at(o.dy, row);
      const D* more = o.dresidual.data ? row_at(o.dresidual, row) : nullptr;
#pragma unroll
      for (int k = 0; k < held; ++k) {
        const int v = lane + k * lanes;
        if (v >= vectors) continue;
        x[r][k] = load_words<N>(in + v * N);
        dy[r][k] = load_words<N>(dout + v * N);
        if (more) dresidual[r][k] = load_words<N>(more + v * N);
      }
    }
#pragma unroll
    for (int r = 0; r < rows; ++r)
#pragma unroll
      for (int k = 0; k < held; ++k) {
        const Vector<D, N> in = elements(x[r][k]), back = elements(dy[r][k]), weight = elements(gain[k]);
#pragma unroll
        for (int e = 0; e < N; ++e) {
          const A product = to<A>(back.at[e]) * to<A>(in.at[e]);
          dgain[k][e] += product * inverse[r];
          dot[r] += to<A>(weight.at[e]) * product;
        }
      }
    if (!o.dx.data) continue;
    group_sums(dot, lanes, scratch, phase);
    phase ^= 1;
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      const int64_t row = top + r * groups + group;
      if (row >= end) continue;
      const A back = dot[r] * inverse[r] * inverse[r] / width;
#pragma unroll
      for (int k = 0; k < held; ++k) {
        const int v = lane + k * lanes;
        if (v >= vectors) continue;
        keep_packed(x[r][k]), keep_packed(dy[r][k]), keep_packed(gain[k]);
        const Vector<D, N> in = elements(x[r][k]), out = elements(dy[r][k]), weight = elements(gain[k]),
                           more = elements(dresidual[r][k]);
        Vector<D, N> y;
#pragma unroll
        for (int e = 0; e < N; ++e) {
          const A through = inverse[r] * (to<A>(weight.at[e]) * to<A>(out.at[e]) - to<A>(in.at[e]) * back);
          y.at[e] = to<D>(o.dresidual.data ? through + to<A>(more.at[e]) : through);
        }
        store(row_at(o.dx, row) + v * N, y);
      }
    }
  }
  if (!o.partials) return;
  A* out = o.partials + int64_t{blockIdx.x} * o.x.width;
  if (groups == 1) {
#pragma unroll
    for (int k = 0; k < held; ++k)
#pragma unroll
      for (int e = 0; e < N; ++e)
        if (lane + k * lanes < vectors) out[(lane + k * lanes) * N + e] = dgain[k][e];
    return;
  }
#pragma unroll
  for (int k = 0; k < held; ++k)
#pragma unroll
    for (int e = 0; e < N; ++e) sums[k * N + e][threadIdx.x] = dgain[k][e];
  __syncthreads();
  for (int c = static_cast<int>(threadIdx.x); c < vectors * N; c += static_cast<int>(blockDim.x)) {
    const int v = c / N, element = v / lanes * N + c % N;
    A sum = 0;
    for (int g = 0; g < groups; ++g) sum += sums[element][g * lanes + v % lanes];
    out[c] = sum;
  }
}

/// Computes dx for rows of any width and alignment. One block computes the rows of one partial sum and keeps the sum in
/// memory.
template <class D>
__global__ void __launch_bounds__(backward_threads) backward_any(Backward<D> o) {
  using A = sum_t<D>;
  __shared__ A scratch[warp_size];
  const int64_t width = o.x.width, end = o.first(int64_t{blockIdx.x} + 1);
  A* partial = o.partials ? o.partials + int64_t{blockIdx.x} * width : nullptr;
  if (partial)
    for (int64_t c = threadIdx.x; c < width; c += blockDim.x) partial[c] = 0;
  for (int64_t row = o.first(blockIdx.x); row < end; ++row) {
    const D *dy = row_at(o.dy, row), *x = row_at(o.x, row);
    const A inverse = o.inverse_rms[row];
    if (partial)
      for (int64_t c = threadIdx.x; c < width; c += blockDim.x) partial[c] += to<A>(dy[c]) * to<A>(x[c]) * inverse;
    if (!o.dx.data) continue;
    A dot = 0;
    for (int64_t c = threadIdx.x; c < width; c += blockDim.x) dot += to<A>(o.gain[c]) * to<A>(dy[c]) * to<A>(x[c]);
    const A back = block_sum(dot, scratch) * inverse * inverse / static_cast<A>(width);
    const D* dresidual = o.dresidual.data ? row_at(o.dresidual, row) : nullptr;
    D* dx = row_at(o.dx, row);
    for (int64_t c = threadIdx.x; c < width; c += blockDim.x) {
      const A through = inverse * (to<A>(o.gain[c]) * to<A>(dy[c]) - to<A>(x[c]) * back);
      dx[c] = to<D>(dresidual ? through + to<A>(dresidual[c]) : through);
    }
  }
}

/// True if the rows and the gain can be read in vectors. The width must be a multiple of the vector size. Operands
/// without data impose no condition.
template <class D>
bool vectors_lie_right(int64_t width, const D* gain, std::initializer_list<Rows<D>> rows) {
  return width % wide<D> == 0 && reinterpret_cast<uintptr_t>(gain) % 16 == 0 &&
         std::all_of(rows.begin(), rows.end(), [](const Rows<D>& r) { return !r.data || r.aligned(wide<D>); });
}

void forward(Stream& stream, const Tensor& out, const Tensor& sum, const Tensor& inverse_rms, const Tensor& x,
             const Tensor& addend, const Tensor& gain, double eps) {
  require(sum.defined() == addend.defined(), "[rms_norm] only ", addend.defined() ? "addend" : "sum",
          " is defined; expected both sum and addend, or neither");
  with_dtype<float, bf16, double>("rms_norm", x.dtype(), [&]<class T>() {
    using D = device_t<T>;
    using A = accumulator_t<T>;
    const Forward<D> o{.out = rows_of<T>("rms_norm", out),
                       .sum = rows_if_defined<T>("rms_norm", sum),
                       .inverse_rms = pointer<A>(inverse_rms),
                       .x = rows_of<T>("rms_norm", x),
                       .addend = rows_if_defined<T>("rms_norm", addend),
                       .gain = pointer<T>(gain),
                       .eps = static_cast<A>(eps)};
    require_shape("rms_norm", "out", out, x.shape());
    if (sum.defined()) require_shape("rms_norm", "sum", sum, x.shape());
    if (addend.defined()) require_shape("rms_norm", "addend", addend, x.shape());
    require_flat("rms_norm", "inverse_rms", inverse_rms, o.x.count);
    require_flat("rms_norm", "gain", gain, o.x.width);

    const auto blocks_of_rows = [&](int rows) { return blocks_of(o.x.count, rows); };
    if constexpr (!std::is_same_v<D, double>) {
      const int64_t vectors = o.x.width / wide<D>;
      if (vectors <= int64_t{8} * max_threads && vectors_lie_right(o.x.width, o.gain, {o.out, o.sum, o.x, o.addend})) {
        const int held = vectors <= 4 * warp_size ? 4 : 8;
        const ThreadGroups g = ThreadGroups::of(vectors, held, narrow_threads);
        return launch("rms_norm", held == 4 ? forward_rows<D, 4> : forward_rows<D, 8>, blocks_of_rows(g.rows),
                      g.threads, stream, o, g.lanes);
      }
    }
    launch("rms_norm", forward_any<D>, blocks_of_rows(1), narrow_threads, stream, o);
  });
}

/// Returns the number of vectors per thread. At most one warp processes a row of up to 128 vectors. For wider rows,
/// each thread holds as few vectors as the size of the block permits.
int vectors_held(int64_t vectors) {
  if (vectors <= 4 * warp_size) return vectors <= warp_size ? 1 : vectors <= 2 * warp_size ? 2 : 4;
  return vectors <= max_backward_threads(1) ? 1 : vectors <= 2 * max_backward_threads(2) ? 2 : 4;
}

void backward(Stream& stream, const Tensor& dx, const Tensor& dgain_partials, const Tensor& dy, const Tensor& x,
              const Tensor& gain, const Tensor& inverse_rms, const Tensor& dresidual) {
  if (!dx.defined() && !dgain_partials.defined()) return;
  with_dtype<float, bf16, double>("rms_norm", x.dtype(), [&]<class T>() {
    using D = device_t<T>;
    using A = accumulator_t<T>;
    const Backward<D> o{.dx = rows_if_defined<T>("rms_norm", dx),
                        .partials = pointer<A>(dgain_partials),
                        .dy = rows_of<T>("rms_norm", dy),
                        .x = rows_of<T>("rms_norm", x),
                        .gain = pointer<T>(gain),
                        .inverse_rms = pointer<A>(inverse_rms),
                        .dresidual = dx.defined() ? rows_if_defined<T>("rms_norm", dresidual) : Rows<D>{}};
    const int64_t count = partials(o.x.count);
    require_shape("rms_norm", "dy", dy, x.shape());
    if (dx.defined()) require_shape("rms_norm", "dx", dx, x.shape());
    if (dresidual.defined()) require_shape("rms_norm", "dresidual", dresidual, x.shape());
    if (dgain_partials.defined()) require_shape("rms_norm", "dgain_partials", dgain_partials, {count, o.x.width});
    require_flat("rms_norm", "inverse_rms", inverse_rms, o.x.count);
    require_flat("rms_norm", "gain", gain, o.x.width);

    if constexpr (!std::is_same_v<D, double>) {
      const int64_t vectors = o.x.width / wide<D>;
      if (vectors <= 4 * max_backward_threads(4) &&
          vectors_lie_right(o.x.width, o.gain, {o.dx, o.dy, o.x, o.dresidual})) {
        const int held = vectors_held(vectors);
        const ThreadGroups g = ThreadGroups::of(vectors, held, backward_threads);
        const auto kernel = held == 1   ? backward_rows<D, 1, 4>
                            : held == 2 ? backward_rows<D, 2, 2>
                                        : backward_rows<D, 4, 1>;
        return launch("rms_norm", kernel, count, g.threads, stream, o, g.lanes);
      }
    }
    launch("rms_norm", backward_any<D>, count, backward_threads, stream, o);
  });
}

}  // namespace
}  // namespace hexad::kernels::cuda

namespace hexad::kernels {

const RmsNormKernels RmsNormKernels::of_cuda{
    .forward = cuda::forward, .backward = cuda::backward, .partials = cuda::partials};

}  // namespace hexad::kernels
