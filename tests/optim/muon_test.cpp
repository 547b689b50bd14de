// Compares Muon with a naive implementation in double.
#include "optim/muon.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "optim/optimizer.h"
#include "tests/support/compare.h"
#include "tests/support/lab.h"

namespace hexad::tests {

using namespace autograd;
using namespace base;
namespace {

using namespace optim;
using Matrix = std::vector<std::vector<double>>;

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix out(a.size(), std::vector<double>(b[0].size(), 0));
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t j = 0; j < b[0].size(); ++j)
      for (size_t k = 0; k < b.size(); ++k) out[i][j] += a[i][k] * b[k][j];
  return out;
}

Matrix transposed(const Matrix& a) {
  Matrix out(a[0].size(), std::vector<double>(a.size()));
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t j = 0; j < a[0].size(); ++j) out[j][i] = a[i][j];
  return out;
}

// Orthogonalises x as in Jordan et al. 2024, by x = a x + b (x x^T) x + c (x x^T)^2 x. The matrix may have any shape.
Matrix twin_of_orthogonalised(Matrix x, int iterations) {
  double squares = 0;
  for (const auto& row : x)
    for (const double v : row) squares += v * v;
  for (auto& row : x)
    for (double& v : row) v /= std::max(std::sqrt(squares), 1e-7);
  for (int i = 0; i < iterations; ++i) {
    const Matrix gram = product(x, transposed(x)), third = product(gram, x), fifth = product(gram, third);
    for (size_t r = 0; r < x.size(); ++r)
      for (size_t c = 0; c < x[0].size(); ++c) x[r][c] = 3.4445 * x[r][c] - 4.7750 * third[r][c] + 2.0315 * fifth[r][c];
  }
  return x;
}

Matrix matrix_at(const std::vector<double>& values, size_t begin, size_t rows, size_t columns) {
  Matrix out(rows, std::vector<double>(columns));
  for (size_t r = 0; r < rows; ++r)
    for (size_t c = 0; c < columns; ++c) out[r][c] = values[begin + r * columns + c];
  return out;
}

OptimConfig muon() {
  OptimConfig config;
  config.name = "muon", config.weight_decay = 0.25, config.muon_momentum = 0.9;
  return config;
}

Parameter& add(Lab& lab, const std::string& name, Dtype dtype, const Shape& shape, bool decay = true) {
  Parameter& p = lab.parameters.add({.name = name,
                                     .global_shape = shape,
                                     .placement = {},
                                     .dtype = dtype,
                                     .init = {Init::Kind::normal, 1.0},
                                     .decay = decay});
  p.initialize(Lab::default_seed);
  return p;
}

void give(Lab& lab, Parameter& p) {
  p.clear_gradient();
  const Tensor g = lab.randn(p.local().shape(), accumulator_dtype(p.local().dtype()));
  kernels::kernels(lab.context).pointwise.copy(lab.stream(), p.gradient_to_add(lab.stream()), g);
}

std::vector<std::string> kinds_of(const Optimizer& optimizer, const Parameter& p) {
  std::vector<std::string> out;
  for (const auto& s : optimizer.states())
    if (s.parameter == &p) out.emplace_back(s.kind);
  return out;
}

Tensor state(const Optimizer& optimizer, const Parameter& p, std::string_view kind) {
  for (const auto& s : optimizer.states())
    if (s.parameter == &p && s.kind == kind) return s.tensor;
  ADD_FAILURE() << "the optimizer has no state " << kind << " of " << p.name();
  return {};
}

// Factor by which the iterations may amplify rounding: the derivative of the polynomial at zero, to the fifth power.
const double amplification = std::pow(3.4445, 5);

class MuonIn : public testing::TestWithParam<Dtype> {};

TEST_P(MuonIn, EqualsItsTwinForWideTallAndStackedMatrices) {
  struct Case {
    Shape shape;
    size_t matrices, rows, columns;
  };
  for (const Case& c : {Case{{5, 7}, 1, 5, 7}, Case{{7, 4}, 1, 7, 4}, Case{{3, 2, 4, 6}, 6, 4, 6}}) {
    SCOPED_TRACE(c.shape.to_string());
    Lab lab;
    Parameter& p = add(lab, "layers.0.w", GetParam(), c.shape);
    Optimizer optimizer(muon(), lab.parameters);
    std::vector<double> w = values_of(p.local()), m(w.size(), 0);
    const double factor = 0.5, lr = 0.1;
    for (int64_t t = 1; t <= 3; ++t) {
      give(lab, p);
      const auto g = values_of(p.gradient());
      std::vector<double> direction(w.size());
      for (size_t e = 0; e < w.size(); ++e) {
        m[e] = 0.9 * m[e] + factor * g[e];
        direction[e] = 0.9 * m[e] + factor * g[e];
      }
      for (size_t i = 0; i < c.matrices; ++i) {
        const size_t begin = i * c.rows * c.columns;
        const Matrix o = twin_of_orthogonalised(matrix_at(direction, begin, c.rows, c.columns), 5);
        const double scale = 0.2 * std::sqrt(static_cast<double>(std::max(c.rows, c.columns)));
        for (size_t r = 0; r < c.rows; ++r)
          for (size_t k = 0; k < c.columns; ++k) {
            double& weight = w[begin + r * c.columns + k];
            weight -= lr * (scale * o[r][k] + 0.25 * weight);
          }
      }
      optimizer.step(lab.stream(), lr, lab.values<double>({factor}), t);
    }
    const Dtype acc = accumulator_dtype(GetParam());
    const auto near = [&](const std::vector<double>& want, const Tensor& got, double allowed) {
      const auto values = values_of(got);
      for (size_t e = 0; e < want.size(); ++e)
        EXPECT_NEAR(values[e], want[e], allowed * std::max(1.0, std::abs(want[e])));
    };
    near(m, state(optimizer, p, "momentum"), 8 * tolerance(acc, 3));
    near(w, state(optimizer, p, "main"), amplification * tolerance(acc, 7));
    near(w, p.local(), 8 * tolerance(GetParam(), 3) + amplification * tolerance(acc, 7));
  }
}
INSTANTIATE_TEST_SUITE_P(, MuonIn, testing::Values(Dtype::f64, Dtype::f32, Dtype::bf16),
                         [](const auto& i) { return std::string(name_of(i.param)); });

// Up to signs, the singular values of a diagonal matrix are its diagonal elements. The polynomial maps each singular
// value independently of the other singular values.
TEST(Orthogonalised, MapsEverySingularValueByThePolynomial) {
  Lab lab;
  const std::vector<double> diagonal{3, 1, -0.5};
  std::vector<double> values(15, 0);
  for (size_t i = 0; i < 3; ++i) values[i * 5 + i] = diagonal[i];
  const auto got = values_of(orthogonalised(lab.stream(), lab.values<double>(values, {3, 5}), 5));
  for (size_t r = 0; r < 3; ++r)
    for (size_t c = 0; c < 5; ++c) {
      double s = r == c ? diagonal[r] / std::sqrt(10.25) : 0;
      for (int i = 0; i < 5; ++i) s = 3.4445 * s - 4.7750 * std::pow(s, 3) + 2.0315 * std::pow(s, 5);
      EXPECT_NEAR(got[r * 5 + c], s, 1e-12);
      if (r != c) continue;
      EXPECT_NEAR(std::abs(s), 1, 0.35);
    }
}

TEST(Orthogonalised, GivesZerosForZerosAndForNan) {
  Lab lab;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  expect_zeros(orthogonalised(lab.stream(), lab.values<double>({0, 0, 0, 0, 0, 0}, {2, 3}), 5));
  expect_zeros(orthogonalised(lab.stream(), lab.values<double>({1, nan, 0, 0, 0, 0}, {2, 3}), 5));
}

TEST(MuonRule, LeavesEverythingButMatricesOfHiddenLayersToAdamw) {
  Lab lab;
  OptimConfig config = muon();
  config.muon_except = {"layers.1.*"};
  const std::vector<std::string> adamw{"main", "moment1", "moment2"}, momentum{"main", "momentum"};
  const auto named = [&](const std::string& name, const Shape& shape, bool decay = true) {
    return &add(lab, name, Dtype::f32, shape, decay);
  };
  const std::vector<Parameter*> others{named("embedding.weight", {4, 3}),
                                       named("position_embedding.weight", {4, 3}),
                                       named("head.weight", {4, 3}),
                                       named("layers.0.moe.router.weight", {4, 3}),
                                       named("layers.0.norm.weight", {3}, false),
                                       named("layers.0.moe.experts.down.bias", {4, 3}, false),
                                       named("layers.0.moe.shared.gate.weight", {1, 3}),
                                       named("layers.1.attention.output.weight", {4, 3})};
  const std::vector<Parameter*> matrices{named("layers.0.attention.output.weight", {4, 3}),
                                         named("layers.0.moe.experts.down.weight", {2, 4, 3})};
  Optimizer optimizer(config, lab.parameters);
  for (const Parameter* p : others) EXPECT_EQ(kinds_of(optimizer, *p), adamw) << p->name();
  for (const Parameter* p : matrices) EXPECT_EQ(kinds_of(optimizer, *p), momentum) << p->name();
}

TEST(MuonRule, AdamwUpdatesTheOtherParametersAsWithoutMuon) {
  const auto trained = [](const std::string& name) {
    Lab lab;
    Parameter& p = add(lab, "embedding.weight", Dtype::f32, {5, 7});
    OptimConfig config;
    config.name = name;
    Optimizer optimizer(config, lab.parameters);
    for (int64_t t = 1; t <= 2; ++t) {
      give(lab, p);
      optimizer.step(lab.stream(), 0.1, {}, t);
    }
    return values_of(p.local());
  };
  EXPECT_EQ(trained("muon"), trained("adamw"));
}

TEST(MuonRule, SkippedStepWritesNothing) {
  Lab lab;
  Parameter& p = add(lab, "layers.0.w", Dtype::bf16, {5, 7});
  Optimizer optimizer(muon(), lab.parameters);
  const Tensor weights = copy_of(p.local()), main = copy_of(state(optimizer, p, "main"));
  give(lab, p);
  optimizer.step(lab.stream(), 0.1, lab.values<double>({-1}), 1);
  expect_bitwise(weights, p.local());
  expect_bitwise(main, state(optimizer, p, "main"));
  expect_zeros(state(optimizer, p, "momentum"));
}

TEST(MuonRule, OffloadedStatesAreBitwiseIdentical) {
  const auto trained = [](StateOffload offload) {
    Lab lab;
    Parameter& p = add(lab, "layers.0.w", Dtype::bf16, {3, 20, 30});
    Optimizer optimizer(muon(), lab.parameters, offload);
    for (int64_t t = 1; t <= 2; ++t) {
      give(lab, p);
      optimizer.step(lab.stream(), 0.1, {}, t);
    }
    return std::pair(values_of(p.local()), values_of(state(optimizer, p, "momentum")));
  };
  EXPECT_EQ(trained(StateOffload::file), trained(StateOffload::none));
}

}  // namespace
}  // namespace hexad::tests
