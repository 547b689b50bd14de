// What reference kernels compute with: every tensor, of any dtype and strides, as doubles in row-major order.
#pragma once

#include <vector>

#include "framework/tensor/tensor.h"

namespace hexad::kernels::reference {

using namespace tensor;

/// A tensor seen as rows (all leading dimensions) of columns (the last). Rank 1 is one row.
struct Array {
  int64_t rows, columns;
  std::vector<double> values;

  int64_t size() const { return rows * columns; }
  double& operator[](int64_t i) { return values[static_cast<size_t>(i)]; }
  double operator[](int64_t i) const { return values[static_cast<size_t>(i)]; }
  double& operator()(int64_t r, int64_t c) { return (*this)[r * columns + c]; }
  double operator()(int64_t r, int64_t c) const { return (*this)[r * columns + c]; }
};

/// Zeros in the shape of `t`.
Array zeros(const Tensor& t);
/// The elements of `t`; integers too (exact up to 2^53).
Array load(const Tensor& t);
/// Rounds the values into `t`.
void store(const Tensor& t, const Array& values);
/// An integer element: an id, a row, a position.
inline int64_t index_at(const Array& a, int64_t i) { return static_cast<int64_t>(a[i]); }

}  // namespace hexad::kernels::reference
