#include "framework/kernels/cpu/products/products.h"

#include "tests/kernels/product_cases.h"

namespace hexad::kernels::cpu {

using namespace base;
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

class Products : public ProductTest {};
INSTANTIATE_TEST_SUITE_P(Dtypes, Products, testing::Values(Dtype::f32, Dtype::bf16, Dtype::f64),
                         [](const auto& p) { return std::string(name_of(p.param)); });

TEST_P(Products, ForwardIsXTimesWTransposed) {
  for (const auto& [rows, outputs, inputs] : sizes) {
    const Tensor x = random(rows, inputs), w = random(outputs, inputs);
    for (const Dtype type : {dtype(), accumulator()}) {
      const Guarded out(rows, outputs, type, context_);
      matmul_forward(stream_, out.tensor(), x, w, Write::replace);
      expect_product(out.tensor(), inputs, plain(x), transposed(w));
      out.expect_band_untouched();
    }
  }
}

TEST_P(Products, InputGradientIsDyTimesW) {
  for (const auto& [rows, outputs, inputs] : sizes) {
    const Tensor dy = random(rows, outputs), w = random(outputs, inputs);
    const Guarded dx(rows, inputs, dtype(), context_);
    matmul_input_gradient(stream_, dx.tensor(), dy, w, Write::replace);
    expect_product(dx.tensor(), outputs, plain(dy), plain(w));
    dx.expect_band_untouched();
  }
}

TEST_P(Products, WeightGradientReplacesOrAdds) {
  for (const auto& [rows, outputs, inputs] : sizes) {
    const Tensor dy = random(rows, outputs), x = random(rows, inputs);
    const Factor left = transposed(dy), right = plain(x);
    const Guarded dw(outputs, inputs, accumulator(), context_);
    matmul_weight_gradient(stream_, dw.tensor(), dy, x, Write::replace);
    expect_product(dw.tensor(), rows, left, right);
    const Tensor before = random(outputs, inputs, accumulator());
    copy(dw.tensor(), before);
    matmul_weight_gradient(stream_, dw.tensor(), dy, x, Write::add);
    expect_product(dw.tensor(), rows, left, right, before);
    dw.expect_band_untouched();
  }
}

// One result has more elements than the buffer for products that are added to bf16 tensors. Rows of results are not
// adjacent.
TEST_P(Products, EveryResultMayBeAddedTo) {
  for (const auto& [rows, outputs, inputs] : {Sizes{15, 33, 17}, {29, 67, 613}, {1100, 1000, 3}}) {
    const Tensor x = random(rows, inputs), w = random(outputs, inputs), dy = random(rows, outputs);
    const Guarded out(rows, outputs, dtype(), context_, 9), dx(rows, inputs, dtype(), context_, 9),
        dw(outputs, inputs, dtype(), context_, 9);
    const Tensor before[] = {random(rows, outputs), random(rows, inputs), random(outputs, inputs)};
    copy(out.tensor(), before[0]), copy(dx.tensor(), before[1]), copy(dw.tensor(), before[2]);
    matmul_forward(stream_, out.tensor(), x, w, Write::add);
    matmul_input_gradient(stream_, dx.tensor(), dy, w, Write::add);
    matmul_weight_gradient(stream_, dw.tensor(), dy, x, Write::add);
    expect_product(out.tensor(), inputs, plain(x), transposed(w), before[0]);
    expect_product(dx.tensor(), outputs, plain(dy), plain(w), before[1]);
    expect_product(dw.tensor(), rows, transposed(dy), plain(x), before[2]);
    out.expect_band_untouched(), dx.expect_band_untouched(), dw.expect_band_untouched();
  }
}

TEST_P(Products, RowsMayBeStrided) {
  for (const auto& [rows, outputs, inputs] : sizes) {
    const Tensor x = random(rows, inputs, dtype(), 5), w = random(outputs, inputs);
    const Guarded out(rows, outputs, dtype(), context_, 9);
    matmul_forward(stream_, out.tensor(), x, w, Write::replace);
    expect_product(out.tensor(), inputs, plain(x), transposed(w));
    out.expect_band_untouched();
  }
}

TEST_P(Products, NaNStaysInItsRow) {
  const int64_t rows = 17;
  const Tensor x = random(rows, 40), w = random(33, 40);
  set(x, 5, 11, nan);
  const Guarded out(rows, 33, dtype(), context_);
  matmul_forward(stream_, out.tensor(), x, w, Write::replace);
  const Values values(out.tensor());
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < 33; ++j) ASSERT_EQ(std::isnan(values(i, j)), i == 5) << i << ", " << j;
}

TEST_P(Products, SumOverNoTermsIsZeroOrUntouched) {
  const Guarded dw(4, 5, accumulator(), context_);
  matmul_weight_gradient(stream_, dw.tensor(), random(0, 4), random(0, 5), Write::replace);
  const Values zeros(dw.tensor());
  for (int64_t i = 0; i < 4; ++i)
    for (int64_t j = 0; j < 5; ++j) ASSERT_EQ(zeros(i, j), 0);
  set(dw.tensor(), 2, 2, 7);
  matmul_weight_gradient(stream_, dw.tensor(), random(0, 4), random(0, 5), Write::add);
  EXPECT_EQ(Values(dw.tensor())(2, 2), 7);
  dw.expect_band_untouched();
}

// The sum of -0 and 0 is 0, so the sign shows whether zeros were added.
TEST_P(Products, SumOverNoTermsIsNotAdded) {
  for (const Dtype type : {dtype(), accumulator()}) {
    const Guarded dw(4, 5, type, context_);
    set(dw.tensor(), 2, 2, -0.0);
    matmul_weight_gradient(stream_, dw.tensor(), random(0, 4), random(0, 5), Write::add);
    EXPECT_TRUE(std::signbit(Values(dw.tensor())(2, 2))) << name_of(type);
  }
}

using Offsets = std::vector<int64_t>;
GroupOffsets on_host(const Offsets& offsets) { return GroupOffsets::on_host(offsets); }
// Offsets of four experts for five cases:
// - every expert has rows;
// - two experts have no rows;
// - one expert has all rows;
// - no expert has rows;
// - the first and last rows belong to no expert.
const Offsets groups[] = {
    {0, 7, 20, 33, 65}, {0, 0, 41, 41, 65}, {0, 0, 65, 65, 65}, {0, 0, 0, 0, 0}, {3, 3, 40, 41, 60}};

TEST_P(Products, GroupedForwardAndInputGradientUseEachExpertsWeight) {
  const int64_t rows = 65, outputs = 37, inputs = 270;
  const Tensor x = random(rows, inputs), dy = random(rows, outputs);
  const Tensor flat = random(4 * outputs, inputs), w = flat.reshape({4, outputs, inputs});
  for (const Offsets& offsets : groups) {
    const Guarded out(rows, outputs, dtype(), context_), dx(rows, inputs, dtype(), context_);
    grouped_matmul_forward(stream_, out.tensor(), x, w, on_host(offsets), Write::replace);
    grouped_matmul_input_gradient(stream_, dx.tensor(), dy, w, on_host(offsets), Write::replace);
    for (int64_t e = 0; e < 4; ++e) {
      const int64_t begin = offsets[e], end = offsets[e + 1];
      expect_product(out.tensor().slice(0, begin, end), inputs, plain(x.slice(0, begin, end)),
                     transposed(flat.slice(0, e * outputs, (e + 1) * outputs)));
      expect_product(dx.tensor().slice(0, begin, end), outputs, plain(dy.slice(0, begin, end)),
                     plain(flat.slice(0, e * outputs, (e + 1) * outputs)));
    }
    const Values y(out.tensor()), gradient(dx.tensor());
    for (int64_t i = 0; i < rows; ++i) {
      if (i >= offsets.front() && i < offsets.back()) continue;
      ASSERT_TRUE(std::isnan(y(i, 0)) && std::isnan(gradient(i, inputs - 1))) << i;
    }
    out.expect_band_untouched(), dx.expect_band_untouched();
  }
}

TEST_P(Products, GroupedWeightGradientOfAnEmptyExpertIsZeroOrUntouched) {
  const int64_t rows = 65, outputs = 37, inputs = 51;
  const Tensor x = random(rows, inputs), dy = random(rows, outputs);
  const Tensor before = random(4 * outputs, inputs, accumulator());
  for (const Offsets& offsets : groups) {
    for (const Write write : {Write::replace, Write::add}) {
      const Guarded dw(4 * outputs, inputs, accumulator(), context_);
      if (write == Write::add) copy(dw.tensor(), before);
      grouped_matmul_weight_gradient(stream_, dw.tensor().reshape({4, outputs, inputs}), dy, x, on_host(offsets),
                                     write);
      for (int64_t e = 0; e < 4; ++e) {
        const int64_t begin = offsets[e], end = offsets[e + 1];
        expect_product(dw.tensor().slice(0, e * outputs, (e + 1) * outputs), end - begin,
                       transposed(dy.slice(0, begin, end)), plain(x.slice(0, begin, end)),
                       write == Write::add ? before.slice(0, e * outputs, (e + 1) * outputs) : Tensor());
      }
      dw.expect_band_untouched();
    }
  }
}

// Tests the choices of schedule.moe.gemms. Experts have from 0 to 300 rows, below and above the block sizes.
TEST_P(Products, DenseCallsOfExpertsEqualTheGroupedCallBitwise) {
  const Offsets rows_of[] = {{0, 7, 20, 33, 65}, {0, 0, 1, 1, 65}, {0, 300, 301, 400, 400}, {0, 0, 0, 0, 0}};
  const int64_t outputs = 131, inputs = 259;
  const Tensor w = random(4 * outputs, inputs).reshape({4, outputs, inputs});
  for (const Offsets& offsets : rows_of) {
    const int64_t rows = offsets.back();
    const Tensor x = random(rows, inputs), dy = random(rows, outputs),
                 start = random(4 * outputs, inputs, accumulator());
    const auto compare = [&](const Tensor& grouped, const Tensor& dense, std::string_view pass) {
      EXPECT_EQ(bytes_of(grouped, grouped.dim(0)), bytes_of(dense, dense.dim(0))) << pass << " of " << rows << " rows";
    };
    const Tensor y[2] = {random(rows, outputs), random(rows, outputs)},
                 dx[2] = {random(rows, inputs), random(rows, inputs)};
    grouped_matmul_forward(stream_, y[0], x, w, on_host(offsets), Write::replace);
    grouped_matmul_input_gradient(stream_, dx[0], dy, w, on_host(offsets), Write::replace);
    for (const Write write : {Write::replace, Write::add}) {
      const Tensor dw[2] = {random(4 * outputs, inputs, accumulator()), random(4 * outputs, inputs, accumulator())};
      for (const Tensor& t : dw) copy(t, start);
      const Tensor stack[2] = {dw[0].reshape({4, outputs, inputs}), dw[1].reshape({4, outputs, inputs})};
      grouped_matmul_weight_gradient(stream_, stack[0], dy, x, on_host(offsets), write);
      for (int64_t e = 0; e < 4; ++e) {
        const int64_t begin = offsets[e], end = offsets[e + 1];
        const Tensor in = x.slice(0, begin, end), gradient = dy.slice(0, begin, end);
        matmul_weight_gradient(stream_, expert_matrix(stack[1], e), gradient, in, write);
        if (begin == end || write == Write::add) continue;
        matmul_forward(stream_, y[1].slice(0, begin, end), in, expert_matrix(w, e), Write::replace);
        matmul_input_gradient(stream_, dx[1].slice(0, begin, end), gradient, expert_matrix(w, e), Write::replace);
      }
      compare(dw[0], dw[1], "weight gradient");
    }
    compare(y[0], y[1], "forward"), compare(dx[0], dx[1], "input gradient");
  }
}

template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const std::logic_error& e) {
    return e.what();
  }
  return "nothing thrown";
}

TEST_P(Products, ErrorsNameTheTensorAndTheExpectation) {
  const Tensor x = random(3, 4), w = random(5, 4), out = random(3, 6);
  EXPECT_EQ(message_of([&] { matmul_forward(stream_, out, x, w, Write::replace); }),
            "[matmul] w has 5 rows and 4 columns; expected 6 rows and 4 columns");
  EXPECT_EQ(
      message_of([&] { matmul_weight_gradient(stream_, random(6, 4, accumulator()), out, random(2, 4), Write::add); }),
      "[matmul weight gradient] x has 2 rows and 4 columns; expected 3 rows and 4 columns");
  const Offsets wrong{0, 2, 1, 3}, few{0, 3};
  const Tensor stack = random(15, 4).reshape({3, 5, 4}), y = random(3, 5);
  EXPECT_EQ(message_of([&] { grouped_matmul_forward(stream_, y, x, stack, on_host(wrong), Write::replace); }),
            "[grouped matmul] offset 2 is 1; expected a whole number from 2 to 3");
  EXPECT_EQ(message_of([&] { grouped_matmul_forward(stream_, y, x, stack, on_host(few), Write::replace); }),
            "[grouped matmul] the number of offsets is 2; expected 4, one more than the number of experts");
}

TEST_P(Products, DeviceOffsetsAreCheckedWhenRead) {
  const Tensor x = random(3, 4), stack = random(10, 4).reshape({2, 5, 4}), y = random(3, 5);
  const auto given = [&](const Offsets& offsets, int64_t max_rows) {
    return GroupOffsets{.groups = 2,
                        .max_rows = max_rows,
                        .device = Tensor::from<int64_t>(offsets, {static_cast<int64_t>(offsets.size())}, context_)};
  };
  const auto message = [&](const GroupOffsets& offsets) {
    return message_of([&] { grouped_matmul_forward(stream_, y, x, stack, offsets, Write::replace); });
  };
  EXPECT_EQ(message(given({0, 1, 3}, 2)), "nothing thrown");
  EXPECT_EQ(message(given({0, 1, 3}, 1)), "[grouped matmul] group 1 has 2 rows; expected at most 1");
  EXPECT_EQ(message(given({0, 4, 3}, 4)), "[grouped matmul] offset 1 is 4; expected a whole number from 0 to 3");
  EXPECT_EQ(message({.groups = 2}),
            "[grouped matmul] neither host nor device has the offsets of 2 groups; expected offsets on the host or on "
            "the device");
}

// The kernels convert the bf16 operand without a copy in f32.
TEST(ProductsOfMixedDtypes, EqualProductsOfWidenedOperandsBitwise) {
  device::DeviceContext context;
  Stream& stream = context.compute();
  std::mt19937_64 generator(7);
  std::uniform_real_distribution<double> uniform(-1, 1);
  const auto random = [&](const Shape& shape, Dtype type) {
    const Tensor t = Tensor::empty(shape, type, context);
    for (int64_t i = 0; i < shape[0]; ++i)
      for (int64_t j = 0; j < shape[1]; ++j) set(t, i, j, uniform(generator));
    return t;
  };
  const auto to = [&](const Tensor& t, Dtype type) {
    const Tensor out = Tensor::empty(t.shape(), type, context);
    copy(out, t);
    return out;
  };
  const auto same = [](const Tensor& a, const Tensor& b) { EXPECT_EQ(bytes_of(a, a.dim(0)), bytes_of(b, b.dim(0))); };
  const int64_t rows = 85, outputs = 67, inputs = 613;
  const Tensor x = random({rows, inputs}, Dtype::bf16), w = random({outputs, inputs}, Dtype::f32),
               dy = random({rows, outputs}, Dtype::f32), wide = to(x, Dtype::f32);
  const Tensor y[2] = {Tensor::like(dy), Tensor::like(dy)}, dw[2] = {Tensor::like(w), Tensor::like(w)};
  matmul_forward(stream, y[0], x, w, Write::replace);
  matmul_forward(stream, y[1], wide, w, Write::replace);
  same(y[0], y[1]);
  matmul_weight_gradient(stream, dw[0], dy, x, Write::replace);
  matmul_weight_gradient(stream, dw[1], dy, wide, Write::replace);
  same(dw[0], dw[1]);
  const Tensor dx = Tensor::like(x), wide_dx = Tensor::like(wide);
  matmul_input_gradient(stream, dx, dy, w, Write::replace);
  matmul_input_gradient(stream, wide_dx, dy, w, Write::replace);
  same(dx, to(wide_dx, Dtype::bf16));
}

TEST(ProductsOfMixedDtypes, AreRefused) {
  device::DeviceContext context;
  Stream& stream = context.compute();
  const auto zeros = [&](const Shape& shape, Dtype type) { return Tensor::zeros(shape, type, context); };
  const Tensor x = zeros({3, 4}, Dtype::f32), w = zeros({5, 4}, Dtype::f32), narrow = zeros({5, 4}, Dtype::bf16);
  const Tensor out = zeros({3, 5}, Dtype::f32);
  EXPECT_EQ(message_of([&] { matmul_forward(stream, out, x, narrow, Write::replace); }),
            "[matmul] w is bf16, but x is f32; expected f32");
  EXPECT_EQ(message_of([&] {
              matmul_forward(stream, zeros({3, 5}, Dtype::f64), x, w, Write::replace);
            }),
            "[matmul] out is f64, but w is f32; expected f32");
  EXPECT_EQ(message_of([&] {
              matmul_forward(stream, zeros({3, 5}, Dtype::bf16), zeros({3, 4}, Dtype::bf16), w, Write::replace);
            }),
            "[matmul] out is bf16, but w is f32; expected f32");
  EXPECT_EQ(message_of([&] { matmul_input_gradient(stream, x, out, narrow, Write::replace); }),
            "[matmul gradient] w is bf16, but dy is f32; expected f32");
  EXPECT_EQ(message_of([&] {
              matmul_input_gradient(stream, zeros({3, 4}, Dtype::f64), out, w, Write::replace);
            }),
            "[matmul gradient] dx is f64, but w is f32; expected bf16 or f32");
  EXPECT_EQ(
      message_of([&] {
        matmul_weight_gradient(stream, zeros({5, 4}, Dtype::f64), out, zeros({3, 4}, Dtype::bf16), Write::replace);
      }),
      "[matmul weight gradient] dw is f64, but x is bf16; expected bf16 or f32");
}

}  // namespace
}  // namespace hexad::kernels::cpu
