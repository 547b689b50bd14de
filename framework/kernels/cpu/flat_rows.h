// View of a tensor of any rank as rows. The leading dimensions are flattened, and the last dimension is contiguous.
#pragma once

#include "framework/kernels/tensor_checks.h"

namespace hexad::kernels::cpu {

using base::require;
using base::Shape;
using tensor::Tensor;

/// Rows of a tensor. rows[r] points to `width` contiguous elements. The leading dimensions may have any strides
/// ("strided rows").
template <class T>
class Rows {
 public:
  explicit Rows(const Tensor& t) : data_(t.data<T>()), width_(t.rank() ? t.dim(-1) : 1) {
    require(width_ <= 1 || t.strides()[-1] == 1, "[kernels] the last dimension of a tensor of shape ", t.shape(),
            " has stride ", t.strides()[-1], "; expected 1");
    for (int d = t.rank() - 2; d >= 0; --d) {
      count_ *= t.dim(d);
      if (t.dim(d) == 1) continue;
      const size_t last = levels_ - 1;
      if (levels_ > 0 && t.strides()[d] == size_[last] * stride_[last]) {
        size_[last] *= t.dim(d);  // dimension d is contiguous with the next inner dimension
      } else {
        size_[levels_] = t.dim(d);
        stride_[levels_++] = t.strides()[d];
      }
    }
  }

  int64_t count() const { return count_; }
  int64_t width() const { return width_; }

  T* operator[](int64_t r) const {
    int64_t offset = 0;
    for (int level = 0; level < levels_; ++level) {
      const size_t l = level;
      const bool outermost = level + 1 == levels_;
      offset += (outermost ? r : r % size_[l]) * stride_[l];
      if (!outermost) r /= size_[l];
    }
    return data_ + offset;
  }

 private:
  T* data_;
  int64_t width_, count_ = 1;
  int levels_ = 0;                                          // number of leading dimensions that remain after merging
  std::array<int64_t, Shape::max_rank> size_{}, stride_{};  // sizes and strides of these dimensions, innermost first
};

}  // namespace hexad::kernels::cpu
