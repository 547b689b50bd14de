// Output tensors that start as NaN inside a band of NaN (bytes 0xff). A test can then find elements that a kernel did
// not write, and bytes that a kernel wrote outside of its output.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "framework/tensor/tensor.h"

namespace hexad::tests {

class Guarded {
 public:
  /// Makes a tensor [rows, columns] with `right` elements of the band after each row. The tensor is strided if `right`
  /// is not 0.
  Guarded(int64_t rows, int64_t columns, base::Dtype dtype, device::Device device, int64_t right = 0)
      : rows_(rows), row_bytes_((columns + right) * base::size_of(dtype)), used_(columns * base::size_of(dtype)) {
    block_ = tensor::Tensor::empty({rows + 2 * band, columns + right}, dtype, device);
    std::memset(block_.raw(), 0xff, block_.bytes());
    inner_ = block_.slice(0, band, band + rows).slice(1, 0, columns);
  }
  const tensor::Tensor& tensor() const { return inner_; }

  void expect_band_untouched() const {
    const auto* bytes = static_cast<const unsigned char*>(block_.raw());
    for (int64_t i = 0; i < block_.bytes(); ++i) {
      const int64_t row = i / row_bytes_ - band;
      const bool inside = row >= 0 && row < rows_ && i % row_bytes_ < used_;
      ASSERT_TRUE(inside || bytes[i] == 0xff)
          << "byte " << i % row_bytes_ << " of row " << row << " of " << rows_ << " was overwritten";
    }
  }

 private:
  static constexpr int64_t band = 3;
  int64_t rows_, row_bytes_, used_;
  tensor::Tensor block_, inner_;
};

}  // namespace hexad::tests
