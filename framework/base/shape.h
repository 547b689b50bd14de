// Sizes of the dimensions of a tensor, stored without allocation.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <string>

namespace hexad::base {

/// Sizes of at most max_rank dimensions, in elements. A Shape can also contain strides, in elements.
class Shape {
 public:
  static constexpr int max_rank = 6;

  Shape() = default;
  Shape(std::initializer_list<int64_t> sizes) : Shape(std::span<const int64_t>(sizes.begin(), sizes.size())) {}
  explicit Shape(std::span<const int64_t> sizes);

  int rank() const { return rank_; }
  /// Returns the size of dimension `dim`; a negative `dim` counts from the end. Throws std::logic_error if there is no
  /// such dimension.
  int64_t operator[](int dim) const { return sizes_[index(dim)]; }
  int64_t& operator[](int dim) { return sizes_[index(dim)]; }
  /// Returns the product of the sizes; 1 for rank 0. Throws std::logic_error if a size is negative, or if the product
  /// exceeds int64.
  int64_t numel() const;
  /// Returns the row-major strides in elements. A size below 1 counts as 1. Throws std::logic_error if a stride or the
  /// product of the sizes exceeds int64.
  Shape row_major_strides() const;
  bool operator==(const Shape& other) const;
  std::string to_string() const;  // returns a text like "[2, 3]"

  const int64_t* begin() const { return sizes_.data(); }
  const int64_t* end() const { return sizes_.data() + rank_; }

 private:
  size_t index(int dim) const {
    const int i = dim < 0 ? dim + rank_ : dim;
    if (i < 0 || i >= rank_) [[unlikely]]
      fail_index(dim);
    return i;
  }
  [[noreturn]] void fail_index(int dim) const;

  std::array<int64_t, max_rank> sizes_{};
  int rank_ = 0;
};

std::ostream& operator<<(std::ostream& out, const Shape& shape);

}  // namespace hexad::base
