// Rectangles of a tensor, and iteration over them for copies between layouts.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "framework/base/placement.h"
#include "framework/tensor/tensor.h"

namespace hexad::io {

using base::Dtype;
using base::Placement;
using base::Shape;
using tensor::Tensor;
using Region = Placement::Region;

/// Returns the region that contains the whole tensor.
Region whole(const Shape& shape);
/// Returns the overlap of two regions of the same tensor. Its size is 0 in each dimension in which the regions do not
/// overlap.
Region intersection(const Region& a, const Region& b);
/// True if `region` has the rank of `shape` and is inside it.
bool inside(const Region& region, const Shape& shape);
/// Returns a view of `region` of `tensor`.
Tensor slice(const Tensor& tensor, const Region& region);
/// Returns the number of bytes of a contiguous tensor; nullopt if a size is negative, or if the bytes or strides exceed
/// 63 bits.
std::optional<int64_t> checked_bytes(const Shape& shape, Dtype dtype);
/// Like checked_bytes(shape, dtype), for elements of `element` bytes.
std::optional<int64_t> checked_bytes(const Shape& shape, int64_t element);
/// Returns a string like "[2, 0]+[4, 8]": first indices and sizes.
std::string to_string(const Region& region);

/// Iterates in row-major order over a rectangle of shape `size` that is stored twice: with strides `a` and with strides
/// `b`. Calls run(offset in the first copy, offset in the second copy, count) for each run that is contiguous in both
/// copies. Offsets and count are in elements.
template <class Run>
void for_each_run(const Shape& size, const Shape& a, const Shape& b, Run&& run) {
  if (size.numel() == 0) return;
  int64_t count = 1;
  int outer = size.rank();  // a run consists of the dimensions from `outer` on
  while (outer > 0 && (size[outer - 1] == 1 || (a[outer - 1] == count && b[outer - 1] == count))) {
    count *= size[--outer];
  }
  std::array<int64_t, Shape::max_rank> index{};
  int64_t offset_a = 0, offset_b = 0;
  for (int d = outer;;) {
    run(offset_a, offset_b, count);
    for (d = outer - 1; d >= 0; --d) {
      int64_t& i = index[d];
      offset_a += a[d], offset_b += b[d];
      if (++i < size[d]) break;
      offset_a -= i * a[d], offset_b -= i * b[d];
      i = 0;
    }
    if (d < 0) return;
  }
}

}  // namespace hexad::io
