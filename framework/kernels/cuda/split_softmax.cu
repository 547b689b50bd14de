// Softmax cross-entropy over columns that are divided among ranks. One block computes one row. A short row remains in
// the first-level cache between the passes.
#include <limits>

#include "framework/kernels/cuda/launch.cuh"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cuda {

using namespace base;
namespace {

constexpr int threads = 512;
using Split = SplitSoftmaxKernels;

/// The columns of the vocabulary that this rank holds, with their logits of dtype L.
template <class L>
struct Columns {
  L* logits;
  const int32_t* targets;
  int64_t rows, count, first;

  __device__ L* row() const { return logits + int64_t{blockIdx.x} * count; }
  __device__ int32_t target() const { return targets[blockIdx.x]; }
  /// Returns the target's column on this rank; -1 if this rank does not hold it.
  __device__ int64_t target_column() const {
    const int64_t column = target() - first;
    return column >= 0 && column < count ? column : -1;
  }
};

/// True if `logits` keeps the exponentials of start_kernel, without rounding, until finish_kernel reads them.
template <class L>
constexpr bool keeps_exponentials = std::is_same_v<L, sum_t<L>>;

template <class L>
__global__ void __launch_bounds__(threads) start_kernel(sum_t<L>* statistics, Columns<L> c) {
  using A = sum_t<L>;
  __shared__ A scratch[warp_size];
  L* const row = c.row();
  const int64_t column = c.target_column();
  // The logit of the target must be read before the row is overwritten.
  const A at_target = threadIdx.x == 0 && column >= 0 ? to<A>(row[column]) : A(0);
  // m is finite even if every logit is -inf, so that the exponentials of such logits are 0 and not NaN.
  A m = std::numeric_limits<A>::lowest(), total = 0;
  for (int64_t v = threadIdx.x; v < c.count; v += threads) m = to<A>(row[v]) > m ? to<A>(row[v]) : m;
  m = block_max(m, scratch);
  for (int64_t v = threadIdx.x; v < c.count; v += threads) {
    const A e = exp(to<A>(row[v]) - m);
    if constexpr (keeps_exponentials<L>) row[v] = e;
    total += e;
  }
  total = block_sum(total, scratch);
  if (threadIdx.x != 0) return;
  const auto put = [&](Split::Statistic what, A value) { statistics[what * c.rows + blockIdx.x] = value; };
  put(Split::largest, m);
  put(Split::total, total);
  put(Split::at_target, at_target);
}

template <class L>
__global__ void __launch_bounds__(threads) finish_kernel(sum_t<L>* losses, Columns<L> c, const sum_t<L>* statistics,
                                                         int64_t ranks, int64_t rank, sum_t<L> scale) {
  using A = sum_t<L>;
  const auto of = [&](int64_t r, Split::Statistic what) {
    return statistics[(r * Split::statistics_count + what) * c.rows + blockIdx.x];
  };
  // Every thread combines the statistics of all ranks in the order of the ranks. All threads read the same number at
  // the same time, so each read is one access per warp.
  A m = of(0, Split::largest), total = 0, logit = 0;
  for (int64_t r = 1; r < ranks; ++r) m = m < of(r, Split::largest) ? of(r, Split::largest) : m;
  for (int64_t r = 0; r < ranks; ++r) {
    total += of(r, Split::total) * exp(of(r, Split::largest) - m);
    logit += of(r, Split::at_target);
  }
  const bool ignored = c.target() < 0, gradient = !ignored && scale != 0;
  if (threadIdx.x == 0) losses[blockIdx.x] = ignored ? A(0) : log(total) - (logit - m);
  const A own = of(rank, Split::largest), factor = scale * exp(own - m) / total;
  const int64_t column = c.target_column();
  L* const row = c.row();
  for (int64_t v = threadIdx.x; v < c.count; v += threads) {
    A e = to<A>(row[v]);
    if constexpr (!keeps_exponentials<L>) e = exp(e - own);
    row[v] = to<L>(gradient ? e * factor - (v == column ? scale : A(0)) : A(0));
  }
}

template <class T>
Columns<device_t<T>> columns_of(const Tensor& logits, const Tensor& targets, int64_t first) {
  const int64_t rows = logits.dim(0), count = logits.dim(1);
  require_flat("split_softmax", "logits", logits, rows * count);
  require_flat("split_softmax", "targets", targets, rows);
  return {pointer<T>(logits), pointer<int32_t>(targets), rows, count, first};
}

void start(Stream& stream, const Tensor& statistics, const Tensor& logits, const Tensor& targets, int64_t first) {
  with_dtype<float, bf16, double>("split_softmax", logits.dtype(), [&]<class T>() {
    using A = accumulator_t<T>;
    using L = device_t<T>;
    const Columns<L> columns = columns_of<T>(logits, targets, first);
    require_flat("split_softmax", "statistics", statistics, Split::statistics_count * columns.rows);
    launch("split_softmax", start_kernel<L>, columns.rows, threads, stream, pointer<A>(statistics), columns);
  });
}

void finish(Stream& stream, const Tensor& losses, const Tensor& logits, const Tensor& statistics, int64_t rank,
            const Tensor& targets, int64_t first, double scale) {
  const int64_t ranks = statistics.dim(0);
  require(0 <= rank && rank < ranks, "[split_softmax] rank is ", rank, "; expected a whole number from 0 to ",
          ranks - 1);
  with_dtype<float, bf16, double>("split_softmax", logits.dtype(), [&]<class T>() {
    using A = accumulator_t<T>;
    using L = device_t<T>;
    const Columns<L> columns = columns_of<T>(logits, targets, first);
    require_flat("split_softmax", "statistics", statistics, ranks * Split::statistics_count * columns.rows);
    require_flat("split_softmax", "losses", losses, columns.rows);
    launch("split_softmax", finish_kernel<L>, columns.rows, threads, stream, pointer<A>(losses), columns,
           pointer<A>(statistics), ranks, rank, scale);
  });
}

}  // namespace
}  // namespace hexad::kernels::cuda

namespace hexad::kernels {

const SplitSoftmaxKernels SplitSoftmaxKernels::of_cuda{.start = cuda::start, .finish = cuda::finish};

}  // namespace hexad::kernels
