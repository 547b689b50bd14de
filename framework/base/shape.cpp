#include "framework/base/shape.h"

#include <algorithm>
#include <ostream>

#include "framework/base/error.h"

namespace hexad::base {

Shape::Shape(std::span<const int64_t> sizes) : rank_(static_cast<int>(sizes.size())) {
  require(sizes.size() <= max_rank, "[shape] the rank is ", sizes.size(), "; expected at most ", max_rank);
  std::copy(sizes.begin(), sizes.end(), sizes_.begin());
}

void Shape::fail_index(int dim) const {
  fail_invariant(
      cat("[shape] dimension ", dim, " of ", *this, " does not exist; expected ", -rank_, " to ", rank_ - 1));
}

int64_t Shape::numel() const {
  int64_t n = 1, least = 1;
  bool overflow = false;
  for (const int64_t s : *this) {
    overflow |= __builtin_mul_overflow(n, s, &n);
    least = std::min(least, s);
  }
  require(least >= 0, "[shape] negative size in ", *this, "; expected at least 0");
  if (least == 0) return 0;
  require(!overflow, "[shape] more than 2^63 - 1 elements in ", *this);
  return n;
}

Shape Shape::row_major_strides() const {
  Shape strides = *this;
  int64_t step = 1;
  for (int d = rank_ - 1; d >= 0; --d) {
    strides[d] = step;
    if (!__builtin_mul_overflow(step, std::max<int64_t>(1, (*this)[d]), &step)) continue;
    (void)numel();  // throws if the shape has elements (too many), or a negative size
    require(d == 0, "[shape] the stride of dimension ", d - 1, " of ", *this, " exceeds 2^63 - 1");
  }
  return strides;
}

bool Shape::operator==(const Shape& other) const { return std::equal(begin(), end(), other.begin(), other.end()); }

std::string Shape::to_string() const {
  std::string text = "[";
  for (int d = 0; d < rank_; ++d) text += (d ? ", " : "") + std::to_string(sizes_[d]);
  return text + "]";
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << shape.to_string(); }

}  // namespace hexad::base
