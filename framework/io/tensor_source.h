// A tensor to write to a file.
#pragma once

#include <functional>
#include <utility>

#include "framework/tensor/tensor.h"

namespace hexad::io {

/// An existing tensor, or a tensor that is computed at each read. A computed tensor needs memory only while it is read.
class TensorSource {
 public:
  /// Makes a source from an existing tensor. The constructor is not explicit, so callers can pass a tensor as a source.
  TensorSource(tensor::Tensor existing)
      : shape_(existing.shape()), dtype_(existing.dtype()), existing_(std::move(existing)) {}
  /// Makes a source from a function. `compute` must return a tensor of this shape and dtype.
  TensorSource(base::Shape shape, base::Dtype dtype, std::function<tensor::Tensor()> compute)
      : shape_(shape), dtype_(dtype), compute_(std::move(compute)) {}

  const base::Shape& shape() const { return shape_; }
  base::Dtype dtype() const { return dtype_; }
  int64_t bytes() const { return shape_.numel() * base::size_of(dtype_); }
  /// Returns the tensor. It may be strided.
  tensor::Tensor get() const { return compute_ ? compute_() : existing_; }

 private:
  base::Shape shape_;
  base::Dtype dtype_;
  tensor::Tensor existing_{};
  std::function<tensor::Tensor()> compute_{};
};

}  // namespace hexad::io
