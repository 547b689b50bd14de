// Functions that check and read operands, for several kernel families.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "framework/base/block_sizes.h"
#include "framework/kernels/cpu/flat_rows.h"
#include "framework/kernels/cpu/parallel.h"
#include "framework/kernels/cpu/simd/norm_loops.h"
#include "framework/kernels/cpu/simd/pointwise_loops.h"

namespace hexad::kernels::cpu {

using base::bf16;
using base::with_dtype;

/// Returns the elements of a gain or bias of any floating dtype, converted once to the accumulator type. The result is
/// empty if `t` is undefined.
template <class A>
std::vector<A> accumulators(const Tensor& t) {
  std::vector<A> values;
  if (!t.defined()) return values;
  require(t.contiguous(), "[kernels] a gain or bias of shape ", t.shape(), " has strides ", t.strides(),
          "; expected contiguous elements");
  values.resize(t.numel());
  with_dtype<float, bf16, double>("kernels", t.dtype(), [&]<class X>() {
    const auto& loops = choose<A>(v3::pointwise_loops, v4::pointwise_loops);
    loops.convert.template from<X>()(values.data(), t.data<X>(), t.numel());
  });
  return values;
}

/// Returns the indices in a contiguous tensor. Throws std::logic_error if an index is outside [lowest, limit). `lowest`
/// is -1 if an index may be -1, which means "none".
template <class I>
const I* checked_indices(std::string_view op, std::string_view name, const Tensor& t, int64_t lowest, int64_t limit) {
  require_flat(op, name, t, t.numel());
  const I* p = t.data<I>();
  for (int64_t i = 0, n = t.numel(); i < n; ++i)
    require(lowest <= p[i] && p[i] < limit, "[", op, "] ", name, "[", i, "] is ", p[i],
            "; expected a whole number from ", lowest, " to ", limit - 1);
  return p;
}

/// Returns the elements of `t`, one per row; null if `t` is undefined.
template <class T>
base::accumulator_t<T>* row_scalars(std::string_view op, std::string_view name, const Tensor& t, int64_t rows) {
  if (!t.defined()) return nullptr;
  require_flat(op, name, t, rows);
  return t.data<base::accumulator_t<T>>();
}

/// Returns the indices of rows to which threads write concurrently. Throws std::logic_error if an index is outside
/// [lowest, limit), or if an index other than -1 occurs more than once.
inline const int64_t* distinct_indices(std::string_view op, std::string_view name, const Tensor& t, int64_t lowest,
                                       int64_t limit) {
  const int64_t* p = checked_indices<int64_t>(op, name, t, lowest, limit);
  std::vector<uint8_t> taken(limit);
  for (int64_t i = 0, n = t.numel(); i < n; ++i)
    require(p[i] < 0 || !std::exchange(taken[p[i]], uint8_t{1}), "[", op, "] ", name, "[", i, "] is ", p[i],
            " for the second time; expected distinct rows");
  return p;
}

/// Calls f(begin, end) in parallel on pieces of [0, n), for elementwise loops.
template <class F>
void parallel_elements(int64_t n, const F& f) {
  parallel_for(n, 16384, f);
}

/// Returns the sum of f(begin, end) over blocks of [0, n), added in order. The result does not depend on the number of
/// threads.
template <class F>
double sum_of_blocks(int64_t n, const F& f) {
  const int64_t block = base::block_sizes().total_elements;
  std::vector<double> sums((n + block - 1) / block);
  parallel_for(static_cast<int64_t>(sums.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) sums[b] = f(b * block, std::min(n, (b + 1) * block));
  });
  double total = 0;
  for (double s : sums) total += s;
  return total;
}

/// Calls f(column, count) in parallel on column blocks of [0, width), for sums over `rows` rows. The sum of a column
/// never depends on the number of threads.
template <class F>
void parallel_columns(int64_t rows, int64_t width, const F& f) {
  parallel_for((width + column_block - 1) / column_block, row_grain(rows * column_block),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i)
                   f(i * column_block, std::min(column_block, width - i * column_block));
               });
}

/// Calls f(expert, begin, end) with the range of rows of each expert.
template <class F>
void for_each_group(const std::vector<int64_t>& offsets, const F& f) {
  for (size_t e = 0; e + 1 < offsets.size(); ++e) f(static_cast<int64_t>(e), offsets[e], offsets[e + 1]);
}

}  // namespace hexad::kernels::cpu
