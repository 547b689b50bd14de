#include "parallel/ep/row_ranges.h"

#include "framework/base/error.h"
#include "framework/kernels/kernel_table.h"

namespace hexad::ep {

using device::Category;
namespace {

// Calls f(of_all, of_rows) for each range, with the range's parts of `all` and of `rows`. `rows` contains the ranges
// one after the other.
template <class F>
void for_each_part(const std::vector<RowRange>& ranges, const Tensor& all, const Tensor& rows, const F& f) {
  int64_t begin = 0;
  for (const RowRange& r : ranges) {
    const int64_t end = begin + r.end - r.begin;
    f(all.slice(0, r.begin, r.end), rows.slice(0, begin, end));
    begin = end;
  }
}

}  // namespace

void RowRanges::add(int64_t begin, int64_t end) {
  if (begin == end) return;
  if (!list_.empty() && list_.back().end == begin)
    list_.back().end = end;
  else
    list_.push_back({begin, end});
}

int64_t RowRanges::rows() const {
  int64_t all = 0;
  for (const RowRange& r : list_) all += r.end - r.begin;
  return all;
}

Tensor RowRanges::part_of(const Tensor& all) const {
  base::require(adjacent(), "[ep] the rows form ", list_.size(),
                " separate ranges; expected at most one range, so that the rows form one part of the tensor");
  return list_.empty() ? all.slice(0, 0, 0) : all.slice(0, list_.front().begin, list_.front().end);
}

Tensor RowRanges::taken_from(const Tensor& all, device::Stream& stream) const {
  if (adjacent()) return part_of(all);
  const Tensor out = Tensor::empty({rows(), all.dim(1)}, all.dtype(), all.device(), Category::communication);
  const auto& k = kernels::kernels(all.device()).pointwise;
  for_each_part(list_, all, out, [&](const Tensor& from, const Tensor& to) { k.copy(stream, to, from); });
  return out;
}

void RowRanges::scatter_into(const Tensor& all, const Tensor& taken, device::Stream& stream) const {
  const auto& k = kernels::kernels(all.device()).pointwise;
  for_each_part(list_, all, taken, [&](const Tensor& to, const Tensor& from) { k.copy(stream, to, from); });
}

}  // namespace hexad::ep
