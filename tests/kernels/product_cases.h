// Common parts of tests of products: operands, sizes near the block sizes, and expected results.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <vector>

#include "framework/base/tolerance.h"
#include "framework/kernels/kernel_table.h"
#include "tests/support/guarded.h"

namespace hexad::kernels::cpu {

using base::accumulator_dtype;
using base::accumulator_t;
using base::bf16;
using base::Dtype;
using base::size_of;
using base::with_dtype;

using tests::Guarded;

/// Elements of a matrix as double. The matrix is read once, because loops may use each element hundreds of times.
class Values {
 public:
  explicit Values(const Tensor& t) : columns_(t.dim(1)) {
    with_dtype<float, bf16, double>("test", t.dtype(), [&]<class T>() {
      const auto view = t.view<T, 2>();
      for (int64_t i = 0; i < t.dim(0); ++i)
        for (int64_t j = 0; j < t.dim(1); ++j) values_.push_back(static_cast<double>(view(i, j)));
    });
  }
  double operator()(int64_t i, int64_t j) const { return values_[i * columns_ + j]; }

 private:
  int64_t columns_;
  std::vector<double> values_;
};

/// Function that returns an element of a factor. plain(t)(i, j) is element (i, j) of t, and transposed(t)(i, j) is
/// element (j, i) of t.
using Factor = std::function<double(int64_t, int64_t)>;
inline Factor plain(const Tensor& t) { return Values(t); }
inline Factor transposed(const Tensor& t) {
  return [v = Values(t)](int64_t i, int64_t j) { return v(j, i); };
}

inline void set(const Tensor& t, int64_t i, int64_t j, double value) {
  with_dtype<float, bf16, double>("test", t.dtype(), [&]<class T>() {
    t.data<T>()[i * t.strides()[0] + j * t.strides()[1]] = T(static_cast<accumulator_t<T>>(value));
  });
}

inline void copy(const Tensor& to, const Tensor& from) {
  const Values values(from);
  for (int64_t i = 0; i < to.dim(0); ++i)
    for (int64_t j = 0; j < to.dim(1); ++j) set(to, i, j, values(i, j));
}

/// Fixture with random operands of one dtype. Compares results with loops in double.
class ProductTest : public testing::TestWithParam<Dtype> {
 protected:
  Dtype dtype() const { return GetParam(); }
  Dtype accumulator() const { return accumulator_dtype(dtype()); }

  /// Returns uniform values in [-1, 1], rounded to the dtype. Each row is followed by `right` elements that do not
  /// belong to the tensor.
  Tensor random(int64_t rows, int64_t columns, Dtype type, int64_t right = 0) {
    const Tensor t = Tensor::empty({rows, columns + right}, type, context_).slice(1, 0, columns);
    std::uniform_real_distribution<double> uniform(-1, 1);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) set(t, i, j, uniform(generator_));
    return t;
  }
  Tensor random(int64_t rows, int64_t columns) { return random(rows, columns, dtype()); }

  /// Expects c to be `start` plus the product of a and b. An undefined `start` counts as zero. Each element is a sum of
  /// `depth` terms.
  void expect_product(const Tensor& c, int64_t depth, const Factor& a, const Factor& b, const Tensor& start = {}) {
    const Values got(c);
    const Factor first = start.defined() ? plain(start) : [](int64_t, int64_t) { return 0.0; };
    for (int64_t i = 0; i < c.dim(0); ++i) {
      for (int64_t j = 0; j < c.dim(1); ++j) {
        double sum = first(i, j), magnitude = std::abs(sum);
        for (int64_t k = 0; k < depth; ++k) {
          sum += a(i, k) * b(k, j);
          magnitude += std::abs(a(i, k) * b(k, j));
        }
        const double limit = tolerance(c.dtype(), depth + 1) * magnitude;
        ASSERT_LE(std::abs(got(i, j) - sum), limit) << "element (" << i << ", " << j << ") of " << c.shape() << " is "
                                                    << got(i, j) << "; expected " << sum << "; depth " << depth;
      }
    }
  }

  device::DeviceContext context_;
  Stream& stream_ = context_.compute();
  std::mt19937_64 generator_{20240229};
};

/// Sizes of x[rows, inputs] and w[outputs, inputs].
struct Sizes {
  int64_t rows, outputs, inputs;
};
/// Sizes below and above the block sizes: register blocks (14 x 32, 6 x 16), blocks of k (512, 256), of rows (84) and
/// of columns (512). One size has exactly 14 x 32 results, and another size has exactly 256 terms.
inline constexpr Sizes sizes[] = {{1, 1, 1},    {1, 65, 7},    {7, 1, 65},      {14, 32, 16},
                                  {15, 33, 17}, {65, 7, 256},  {13, 131, 257},  {169, 61, 31},
                                  {3, 521, 64}, {29, 67, 613}, {127, 515, 259}, {64, 64, 64}};

/// Returns the bytes of the first `rows` rows, including the gaps between them.
inline std::vector<unsigned char> bytes_of(const Tensor& t, int64_t rows) {
  const auto* p = static_cast<const unsigned char*>(t.raw());
  return {p, p + rows * t.strides()[0] * size_of(t.dtype())};
}

}  // namespace hexad::kernels::cpu
