// Compares products of the CPU's kernels with f64 products of Eigen, which shares no code with them.
#include <gtest/gtest.h>

#include <Eigen/Core>
#include <random>
#include <vector>

#include "framework/base/tolerance.h"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels {

using namespace base;
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Returns the rows of a tensor [.., N, D] as a matrix, with leading dimensions flattened.
Matrix matrix(const Tensor& t) {
  Matrix m(t.numel() / t.dim(-1), t.dim(-1));
  with_dtype<float, bf16, double>("test", t.dtype(), [&]<class T>() {
    const std::vector<T> values = t.to_vector<T>();
    for (Eigen::Index i = 0; i < m.size(); ++i) m.data()[i] = static_cast<double>(values[i]);
  });
  return m;
}

/// Expected result of a product: the sum of `depth` terms for each element, and the sum of their magnitudes.
struct Expected {
  Matrix sum, magnitude;
  int64_t depth;

  Expected(const Matrix& a, const Matrix& b) : sum(a * b), magnitude(a.cwiseAbs() * b.cwiseAbs()), depth(a.cols()) {}
  /// Adds `before`, the previous contents of the result.
  Expected& after(const Matrix& before) {
    sum += before, magnitude += before.cwiseAbs(), ++depth;
    return *this;
  }
};

void expect_product(const Tensor& got, const Expected& want, std::string_view what) {
  const Matrix error = (matrix(got) - want.sum).cwiseAbs();
  const double allowed = tolerance(got.dtype(), want.depth);
  ASSERT_EQ(error.rows(), want.sum.rows()) << what;
  ASSERT_EQ(error.cols(), want.sum.cols()) << what;
  for (Eigen::Index i = 0; i < error.rows(); ++i)
    for (Eigen::Index j = 0; j < error.cols(); ++j)
      ASSERT_LE(error(i, j), allowed * want.magnitude(i, j))
          << what << ": element (" << i << ", " << j << ") is " << matrix(got)(i, j) << ", but Eigen computes "
          << want.sum(i, j) << "; depth " << want.depth;
}

struct Sizes {
  int64_t rows, outputs, inputs;
};
/// Small and odd sizes, and one size of several blocks in rows, columns and depth.
constexpr Sizes sizes[] = {{1, 1, 1}, {5, 3, 70}, {257, 131, 613}, {600, 530, 1031}};

class EigenOracle : public testing::TestWithParam<Dtype> {
 protected:
  Dtype dtype() const { return GetParam(); }
  Dtype accumulator() const { return accumulator_dtype(dtype()); }

  /// Returns uniform values in [-1, 1], rounded to the dtype.
  Tensor random(const Shape& shape, Dtype type) {
    std::uniform_real_distribution<double> uniform(-1, 1);
    const Tensor t = Tensor::empty(shape, type, context_);
    with_dtype<float, bf16, double>("test", type, [&]<class T>() {
      for (int64_t i = 0; i < t.numel(); ++i) t.data<T>()[i] = T(static_cast<accumulator_t<T>>(uniform(generator_)));
    });
    return t;
  }
  Tensor random(const Shape& shape) { return random(shape, dtype()); }
  Tensor empty(const Shape& shape, Dtype type) { return Tensor::empty(shape, type, context_); }

  device::DeviceContext context_;
  Stream& stream_ = context_.compute();
  const KernelTable& k_ = kernels(context_);
  std::mt19937_64 generator_{20261124};
};
INSTANTIATE_TEST_SUITE_P(Dtypes, EigenOracle, testing::Values(Dtype::f32, Dtype::f64, Dtype::bf16),
                         [](const auto& p) { return std::string(name_of(p.param)); });

TEST_P(EigenOracle, AgreesWithEveryPassOfAProduct) {
  for (const auto& [rows, outputs, inputs] : sizes) {
    const Tensor x = random({rows, inputs}), w = random({outputs, inputs}), dy = random({rows, outputs});
    const Matrix X = matrix(x), W = matrix(w), dY = matrix(dy);
    const Tensor out = empty({rows, outputs}, dtype()), dx = empty({rows, inputs}, dtype());
    k_.matmul.forward(stream_, out, x, w, Write::replace);
    k_.matmul.input_gradient(stream_, dx, dy, w, Write::replace);
    expect_product(out, {X, W.transpose()}, "forward");
    expect_product(dx, {dY, W}, "input gradient");
    const Tensor dw = empty({outputs, inputs}, accumulator()), before = random({outputs, inputs}, accumulator());
    k_.matmul.weight_gradient(stream_, dw, dy, x, Write::replace);
    expect_product(dw, {dY.transpose(), X}, "weight gradient");
    dw.upload(before.raw());
    k_.matmul.weight_gradient(stream_, dw, dy, x, Write::add);
    expect_product(dw, Expected(dY.transpose(), X).after(matrix(before)), "weight gradient, added");
  }
}

// Experts have no row, one row or many rows, as in routing. The first two and the last three rows belong to no expert.
TEST_P(EigenOracle, AgreesWithEveryPassOfAGroupedProduct) {
  const std::vector<int64_t> offsets{2, 2, 3, 200, 200, 341, 360};
  const int64_t experts = static_cast<int64_t>(offsets.size()) - 1, rows = 363, outputs = 131, inputs = 275;
  const Tensor x = random({rows, inputs}), w = random({experts, outputs, inputs}), dy = random({rows, outputs});
  const Matrix X = matrix(x), W = matrix(w), dY = matrix(dy);
  const GroupOffsets groups = GroupOffsets::on_host(offsets);
  const Tensor out = random({rows, outputs}), dx = random({rows, inputs}), out_before = empty(out.shape(), dtype()),
               dx_before = empty(dx.shape(), dtype()), dw = empty({experts, outputs, inputs}, accumulator());
  out_before.upload(out.raw()), dx_before.upload(dx.raw());
  k_.grouped_matmul.forward(stream_, out, x, w, groups, Write::replace);
  k_.grouped_matmul.input_gradient(stream_, dx, dy, w, groups, Write::replace);
  k_.grouped_matmul.weight_gradient(stream_, dw, dy, x, groups, Write::replace);
  for (int64_t e = 0; e < experts; ++e) {
    const int64_t begin = offsets[e], end = offsets[e + 1];
    const Matrix x_e = X.middleRows(begin, end - begin), dy_e = dY.middleRows(begin, end - begin),
                 w_e = W.middleRows(e * outputs, outputs);
    if (begin < end) {
      expect_product(out.slice(0, begin, end), {x_e, w_e.transpose()}, base::cat("forward of expert ", e));
      expect_product(dx.slice(0, begin, end), {dy_e, w_e}, base::cat("input gradient of expert ", e));
    }
    expect_product(dw.slice(0, e, e + 1), {dy_e.transpose(), x_e}, base::cat("weight gradient of expert ", e));
  }
  for (const auto& [now, then] : {std::pair{out, out_before}, {dx, dx_before}}) {
    EXPECT_EQ(matrix(now).topRows(2), matrix(then).topRows(2)) << "rows without an expert are unchanged";
    EXPECT_EQ(matrix(now).bottomRows(3), matrix(then).bottomRows(3)) << "rows without an expert are unchanged";
  }
}

}  // namespace
}  // namespace hexad::kernels
