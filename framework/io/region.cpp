#include "framework/io/region.h"

#include <algorithm>

namespace hexad::io {

using namespace base;

Region whole(const Shape& shape) {
  Region region{shape, shape};
  for (int d = 0; d < shape.rank(); ++d) region.begin[d] = 0;
  return region;
}

Region intersection(const Region& a, const Region& b) {
  Region shared = a;
  for (int d = 0; d < a.begin.rank(); ++d) {
    const int64_t end = std::min(a.begin[d] + a.size[d], b.begin[d] + b.size[d]);
    shared.begin[d] = std::max(a.begin[d], b.begin[d]);
    shared.size[d] = std::max<int64_t>(0, end - shared.begin[d]);
  }
  return shared;
}

bool inside(const Region& region, const Shape& shape) {
  if (region.begin.rank() != shape.rank() || region.size.rank() != shape.rank()) return false;
  for (int d = 0; d < shape.rank(); ++d) {
    const int64_t begin = region.begin[d], size = region.size[d];
    if (begin < 0 || size < 0 || begin > shape[d] || size > shape[d] - begin) return false;
  }
  return true;
}

Tensor slice(const Tensor& tensor, const Region& region) {
  Tensor part = tensor;
  for (int d = 0; d < tensor.rank(); ++d) part = part.slice(d, region.begin[d], region.begin[d] + region.size[d]);
  return part;
}

std::optional<int64_t> checked_bytes(const Shape& shape, Dtype dtype) { return checked_bytes(shape, size_of(dtype)); }

std::optional<int64_t> checked_bytes(const Shape& shape, int64_t element) {
  int64_t bytes = element;
  bool empty = false;
  for (int64_t size : shape) {
    if (size < 0) return std::nullopt;
    empty = empty || size == 0;
    // A size of 0 counts as 1, because strides must not overflow even if the tensor has no elements.
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(1, size), &bytes)) return std::nullopt;
  }
  return empty ? 0 : bytes;
}

std::string to_string(const Region& region) { return cat(region.begin, "+", region.size); }

}  // namespace hexad::io
