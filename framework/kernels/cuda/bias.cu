#include <bit>

#include "framework/kernels/cuda/products/product_groups.h"
#include "framework/kernels/cuda/vectors.cuh"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cuda {

using namespace base;
using namespace tensor;
namespace {

constexpr int threads = 256, at_once = 4;

/// Division of rows among the threads of a block. Each row is processed by `lanes` adjacent threads, with one vector
/// each. `across` blocks cover the width of a row.
struct Sharing {
  int lanes;
  int64_t across;

  static Sharing of(int64_t vectors, int max_lanes) {
    const auto lanes = static_cast<int>(std::bit_ceil(static_cast<uint64_t>(std::min<int64_t>(vectors, max_lanes))));
    return {lanes, (vectors + lanes - 1) / lanes};
  }
  __host__ __device__ int rows() const { return threads / lanes; }
  /// Return the row of this thread within the block, and the index of the thread's vector in that row.
  __device__ int row() const { return static_cast<int>(threadIdx.x) / lanes; }
  __device__ int64_t vector() const { return blockIdx.x % across * lanes + static_cast<int>(threadIdx.x) % lanes; }
  __device__ int64_t block() const { return blockIdx.x / across; }
};

/// Rows of groups, given by offsets on the device. If `offsets` is null, each group has `size` rows.
struct Ranges {
  const int64_t* offsets;
  int64_t groups, size;

  __device__ int64_t begin(int64_t e) const { return offsets ? offsets[e] : e * size; }
  __device__ int64_t end(int64_t e) const { return begin(e + 1); }
  /// Returns the group that contains `row`, a row before the end of the last group.
  __device__ int64_t group_of(int64_t row) const {
    int64_t low = 0, high = groups - 1;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (end(middle) > row) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }
};

/// Adds bias[group of t] to row t of x. Rows that belong to no group do not change.
template <class D, class B, int N>
__global__ void __launch_bounds__(threads)
    add_bias(Rows<D> x, const B* bias, Ranges ranges, Sharing sharing, int64_t rows_per_block) {
  using A = sum_t<D>;
  const int64_t column = sharing.vector() * N, step = sharing.rows();
  if (column >= x.width) return;
  const int64_t first = max(sharing.block() * rows_per_block, ranges.begin(0));
  const int64_t last = min(min((sharing.block() + 1) * rows_per_block, x.count), ranges.begin(ranges.groups));
  int64_t t = first + sharing.row();
  if (t >= last) return;
  int64_t e = ranges.group_of(t), end = ranges.end(e);
  Vector<B, N> b = load<N>(bias + e * x.width + column);
  for (; t < last; t += step * at_once) {
    Words<D, N> loaded[at_once] = {};
#pragma unroll
    for (int u = 0; u < at_once; ++u)
      if (t + u * step < last) loaded[u] = load_words<N>(row_at(x, t + u * step) + column);
#pragma unroll
    for (int u = 0; u < at_once; ++u) {
      const int64_t row = t + u * step;
      if (row >= last) return;
      if (row >= end) {
        while (row >= end) end = ranges.end(++e);
        b = load<N>(bias + e * x.width + column);
      }
      Vector<D, N> v = elements(loaded[u]);
#pragma unroll
      for (int i = 0; i < N; ++i) v.at[i] = to<D>(to<A>(v.at[i]) + to<A>(b.at[i]));
      store(row_at(x, row) + column, v);
    }
  }
}

/// Computes the column sums of part `split` of the group's rows. Writes the sums to out[group * splits + split, :], or
/// adds the sums to this row if `add` is true. The order of addition is fixed.
template <class D, int N>
__global__ void __launch_bounds__(threads)
    column_sums(sum_t<D>* out, Rows<D> x, Ranges ranges, int64_t splits, Sharing sharing, bool add) {
  using A = sum_t<D>;
  __shared__ A scratch[N][threads];
  const int64_t column = sharing.vector() * N, step = sharing.rows();
  const int64_t e = sharing.block() / splits, split = sharing.block() % splits;
  const int64_t begin = ranges.begin(e), end = ranges.end(e), part = (end - begin + splits - 1) / splits;
  const int64_t last = min(begin + (split + 1) * part, end);
  A sums[N] = {};
  if (column < x.width) {
    for (int64_t t = begin + split * part + sharing.row(); t < last; t += step * at_once) {
      Words<D, N> loaded[at_once] = {};
#pragma unroll
      for (int u = 0; u < at_once; ++u)
        if (t + u * step < last) loaded[u] = load_words<N>(row_at(x, t + u * step) + column);
#pragma unroll
      for (int u = 0; u < at_once; ++u)
#pragma unroll
        for (int i = 0; i < N; ++i) sums[i] += to<A>(elements(loaded[u]).at[i]);  // loads beyond the end are zeros
    }
  }
#pragma unroll
  for (int i = 0; i < N; ++i) scratch[i][threadIdx.x] = sums[i];
  for (int half = sharing.rows() / 2; half > 0; half /= 2) {
    __syncthreads();
    if (sharing.row() >= half) continue;
#pragma unroll
    for (int i = 0; i < N; ++i) scratch[i][threadIdx.x] += scratch[i][threadIdx.x + half * sharing.lanes];
  }
  if (sharing.row() > 0 || column >= x.width) return;
  A* result = out + sharing.block() * x.width + column;
#pragma unroll
  for (int i = 0; i < N; ++i) result[i] = add ? result[i] + scratch[i][threadIdx.x] : scratch[i][threadIdx.x];
}

/// Calls go.operator()<N>() with N = wide<D> if the rows and `bias` (may be null) allow it, otherwise with N = 1.
template <class D, class Go>
void with_vectors(const Rows<D>& x, const void* bias, const Go& go) {
  if (x.aligned(wide<D>) && reinterpret_cast<uintptr_t>(bias) % 16 == 0) {
    go.template operator()<wide<D>>();
  } else {
    go.template operator()<1>();
  }
}

void add_to_rows(std::string_view op, Stream& stream, const Tensor& x, const Tensor& bias, const Ranges& ranges) {
  constexpr int max_lanes = 32, turns = 4;
  require_flat(op, "bias", bias, ranges.groups * x.dim(-1));
  with_dtype<float, bf16, double>(op, x.dtype(), [&]<class T>() {
    using D = device_t<T>;
    const auto rows = rows_of<T>(op, x);
    if (rows.count == 0 || rows.width == 0 || ranges.groups == 0) return;
    const auto add = [&]<class B>() {
      with_vectors(rows, device_raw(bias), [&]<int N>() {
        const Sharing sharing = Sharing::of(rows.width / N, max_lanes);
        const int64_t rows_per_block = sharing.rows() * at_once * turns;
        const int64_t blocks = (rows.count + rows_per_block - 1) / rows_per_block * sharing.across;
        launch(op, add_bias<D, device_t<B>, N>, blocks, threads, stream, rows, pointer<B>(bias), ranges, sharing,
               rows_per_block);
      });
    };
    if (bias.dtype() == x.dtype()) {
      add.template operator()<T>();
    } else {
      add.template operator()<accumulator_t<T>>();
    }
  });
}

/// Launches column_sums once.
template <class D>
void sum_columns(std::string_view op, Stream& stream, sum_t<D>* out, const Rows<D>& x, const Ranges& ranges,
                 int64_t splits, int max_lanes, bool add) {
  with_vectors(x, nullptr, [&]<int N>() {
    const Sharing sharing = Sharing::of(x.width / N, max_lanes);
    const int64_t blocks = ranges.groups * splits * sharing.across;
    launch(op, column_sums<D, N>, blocks, threads, stream, out, x, ranges, splits, sharing, add);
  });
}

/// Adds the column sums of each group's rows to dbias[groups, N]. Takes two steps if the groups have many rows on
/// average and there are few groups and columns.
void add_column_sums(std::string_view op, Stream& stream, const Tensor& dbias, const Tensor& dy, const Ranges& ranges) {
  constexpr int64_t rows_per_split = 256, wanted_blocks = 1024;
  constexpr int warp = 32, few = 8;  // values of `max_lanes`; `few` gives more blocks if there are few rows
  require_flat(op, "dbias", dbias, ranges.groups * dy.dim(-1));
  with_dtype<float, bf16, double>(op, dy.dtype(), [&]<class T>() {
    using A = accumulator_t<T>;
    const auto rows = rows_of<T>(op, dy);
    if (rows.count == 0 || rows.width == 0 || ranges.groups == 0) return;
    const int64_t across = (rows.width * size_of(dy.dtype()) + 16 * warp - 1) / (16 * warp);
    const int64_t splits = std::clamp<int64_t>(wanted_blocks / (ranges.groups * across), 1,
                                               std::max<int64_t>(1, rows.count / ranges.groups / rows_per_split));
    if (splits == 1) return sum_columns(op, stream, pointer<A>(dbias), rows, ranges, 1, few, true);
    const Tensor partials = Tensor::empty({ranges.groups * splits, rows.width}, dtype_of<A>, dy.device());
    sum_columns(op, stream, pointer<A>(partials), rows, ranges, splits, warp, false);
    sum_columns(op, stream, pointer<A>(dbias), rows_of<A>(op, partials), Ranges{nullptr, ranges.groups, splits}, 1, few,
                true);
  });
}

Ranges one_group(const Tensor& rows) { return {nullptr, 1, rows.dim(-1) == 0 ? 0 : rows.numel() / rows.dim(-1)}; }

void forward(Stream& stream, const Tensor& x, const Tensor& bias) {
  add_to_rows("bias", stream, x, bias, one_group(x));
}

void backward(Stream& stream, const Tensor& dbias, const Tensor& dy) {
  add_column_sums("bias", stream, dbias, dy, one_group(dy));
}

void grouped_forward(Stream& stream, const Tensor& x, const Tensor& bias, const GroupOffsets& offsets) {
  check_offsets("grouped bias", offsets, bias.dim(0), one_group(x).size);
  const Tensor known = offsets_on_device(stream, offsets, x.device());
  add_to_rows("grouped bias", stream, x, bias, Ranges{device_data<int64_t>(known), offsets.groups, 0});
}

void grouped_backward(Stream& stream, const Tensor& dbias, const Tensor& dy, const GroupOffsets& offsets) {
  check_offsets("grouped bias", offsets, dbias.dim(0), one_group(dy).size);
  const Tensor known = offsets_on_device(stream, offsets, dy.device());
  add_column_sums("grouped bias", stream, dbias, dy, Ranges{device_data<int64_t>(known), offsets.groups, 0});
}

}  // namespace
}  // namespace hexad::kernels::cuda

namespace hexad::kernels {

const BiasKernels BiasKernels::of_cuda{.forward = cuda::forward,
                                       .backward = cuda::backward,
                                       .grouped_forward = cuda::grouped_forward,
                                       .grouped_backward = cuda::grouped_backward};

}  // namespace hexad::kernels
