#include "framework/kernels/cpu/products/products.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "framework/kernels/cpu/parallel.h"
#include "framework/kernels/cpu/products/gemm.h"
#include "framework/kernels/cpu/products/onednn.h"
#include "framework/kernels/cpu/simd/isa.h"
#include "framework/kernels/pack_cache.h"
#include "tests/support/guarded.h"
#include "tests/support/tolerance.h"

namespace hexad::kernels::cpu {
namespace {

using tests::Guarded;
using tests::tolerance;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// The elements of a matrix, read once: the loops below read each of them hundreds of times.
class Values {
 public:
  explicit Values(const Tensor& t) : columns_(t.dim(1)) {
    with_dtype<float, bf16, double>("test", t.dtype(), [&]<class T>() {
      const auto view = t.view<T, 2>();
      for (int64_t i = 0; i < t.dim(0); ++i)
        for (int64_t j = 0; j < t.dim(1); ++j) values_.push_back(static_cast<double>(view(i, j)));
    });
  }
  double operator()(int64_t i, int64_t j) const { return values_[static_cast<size_t>(i * columns_ + j)]; }

 private:
  int64_t columns_;
  std::vector<double> values_;
};

using Factor = std::function<double(int64_t, int64_t)>;
Factor plain(const Tensor& t) { return Values(t); }
Factor transposed(const Tensor& t) {
  return [v = Values(t)](int64_t i, int64_t j) { return v(j, i); };
}

void set(const Tensor& t, int64_t i, int64_t j, double value) {
  with_dtype<float, bf16, double>("test", t.dtype(), [&]<class T>() {
    t.data<T>()[i * t.strides()[0] + j * t.strides()[1]] = T(static_cast<accumulator_t<T>>(value));
  });
}

void copy(const Tensor& to, const Tensor& from) {
  const Values values(from);
  for (int64_t i = 0; i < to.dim(0); ++i)
    for (int64_t j = 0; j < to.dim(1); ++j) set(to, i, j, values(i, j));
}

class Products : public testing::TestWithParam<Dtype> {
 protected:
  Dtype dtype() const { return GetParam(); }
  Dtype accumulator() const { return accumulator_dtype(dtype()); }

  /// Uniform in [-1, 1], rounded to the dtype; rows `right` elements longer than they look.
  Tensor random(int64_t rows, int64_t columns, Dtype type, int64_t right = 0) {
    const Tensor t = Tensor::empty({rows, columns + right}, type, context_).slice(1, 0, columns);
    std::uniform_real_distribution<double> uniform(-1, 1);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) set(t, i, j, uniform(generator_));
    return t;
  }
  Tensor random(int64_t rows, int64_t columns) { return random(rows, columns, dtype()); }

  /// c must be `start` (zero if undefined) plus the product of a and b.
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
        ASSERT_LE(std::abs(got(i, j) - sum), limit) << "element (" << i << ", " << j << ") of " << c.shape() << ": "
                                                    << got(i, j) << ", expected " << sum << "; depth " << depth;
      }
    }
  }

  device::DeviceContext context_;
  Stream& stream_ = context_.compute();
  std::mt19937_64 generator_{20240229};
};

INSTANTIATE_TEST_SUITE_P(Dtypes, Products, testing::Values(Dtype::f32, Dtype::bf16, Dtype::f64),
                         [](const auto& p) { return std::string(name_of(p.param)); });

struct Sizes {
  int64_t rows, outputs, inputs;
};
// Below, at and above the register blocks (14 x 32, 6 x 16), the blocks of k (512, 256), of rows (84), of columns
// (512).
constexpr Sizes sizes[] = {{1, 1, 1},      {1, 65, 7},    {7, 1, 65},   {14, 32, 16},  {15, 33, 17},    {65, 7, 256},
                           {13, 131, 257}, {169, 61, 31}, {3, 521, 64}, {29, 67, 613}, {127, 515, 259}, {64, 64, 64}};

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

// Beyond what is kept beside a bf16 result at a time, in rows that lie apart.
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

using Offsets = std::vector<int64_t>;
GroupOffsets on_host(const Offsets& offsets) { return GroupOffsets::on_host(offsets); }
// Four experts: usual, with empty ones, all rows to one, none at all, rows before and after that belong to nobody.
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
      const int64_t begin = offsets[static_cast<size_t>(e)], end = offsets[static_cast<size_t>(e) + 1];
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
        const int64_t begin = offsets[static_cast<size_t>(e)], end = offsets[static_cast<size_t>(e) + 1];
        expect_product(dw.tensor().slice(0, e * outputs, (e + 1) * outputs), end - begin,
                       transposed(dy.slice(0, begin, end)), plain(x.slice(0, begin, end)),
                       write == Write::add ? before.slice(0, e * outputs, (e + 1) * outputs) : Tensor());
      }
      dw.expect_band_untouched();
    }
  }
}

std::vector<unsigned char> bytes_of(const Tensor& t, int64_t rows) {
  const auto* p = static_cast<const unsigned char*>(t.raw());
  return {p, p + rows * t.strides()[0] * size_of(t.dtype())};
}

// What schedule.moe.products chooses between. 1 to 300 rows: below and above the blocks, and beyond oneDNN's kernels.
TEST_P(Products, DenseCallsOfExpertsGiveTheBitsOfTheGroupedOne) {
  const Offsets rows_of[] = {{0, 7, 20, 33, 65}, {0, 0, 1, 1, 65}, {0, 300, 301, 400, 400}, {0, 0, 0, 0, 0}};
  const int64_t outputs = 131, inputs = 259;
  const Tensor w = random(4 * outputs, inputs).reshape({4, outputs, inputs});
  PackCache packs;
  for (const Offsets& offsets : rows_of) {
    const int64_t rows = offsets.back();
    const Tensor x = random(rows, inputs), dy = random(rows, outputs),
                 start = random(4 * outputs, inputs, accumulator());
    const auto compare = [&](const Tensor& grouped, const Tensor& dense, std::string_view pass) {
      EXPECT_EQ(bytes_of(grouped, grouped.dim(0)), bytes_of(dense, dense.dim(0))) << pass << " of " << rows << " rows";
    };
    const Weight weight(w, &packs);
    const Tensor y[2] = {random(rows, outputs), random(rows, outputs)},
                 dx[2] = {random(rows, inputs), random(rows, inputs)};
    grouped_matmul_forward(stream_, y[0], x, weight, on_host(offsets), Write::replace);
    grouped_matmul_input_gradient(stream_, dx[0], dy, weight, on_host(offsets), Write::replace);
    for (const Write write : {Write::replace, Write::add}) {
      const Tensor dw[2] = {random(4 * outputs, inputs, accumulator()), random(4 * outputs, inputs, accumulator())};
      for (const Tensor& t : dw) copy(t, start);
      const Tensor stack[2] = {dw[0].reshape({4, outputs, inputs}), dw[1].reshape({4, outputs, inputs})};
      grouped_matmul_weight_gradient(stream_, stack[0], dy, x, on_host(offsets), write);
      for (int64_t e = 0; e < 4; ++e) {
        const int64_t begin = offsets[static_cast<size_t>(e)], end = offsets[static_cast<size_t>(e) + 1];
        const Tensor in = x.slice(0, begin, end), gradient = dy.slice(0, begin, end);
        matmul_weight_gradient(stream_, Weight(stack[1]).of_expert(e).data, gradient, in, write);
        if (begin == end || write == Write::add) continue;
        matmul_forward(stream_, y[1].slice(0, begin, end), in, weight.of_expert(e), Write::replace);
        matmul_input_gradient(stream_, dx[1].slice(0, begin, end), gradient, weight.of_expert(e), Write::replace);
      }
      compare(dw[0], dw[1], "weight gradient");
    }
    compare(y[0], y[1], "forward"), compare(dx[0], dx[1], "input gradient");
  }
}

GemmTile forward_tile(const Tensor& out, const Tensor& x, const Tensor& w) {
  return {.m = x.dim(0),
          .n = w.dim(0),
          .k = x.dim(1),
          .a = {x.raw(), x.dtype(), x.dim(1), 1},
          .b = {w.raw(), w.dtype(), 1, w.dim(1)},
          .c = {out.raw(), out.dtype(), w.dim(0)},
          .add = false};
}

TEST_P(Products, OwnKernelsGiveTheSameBitsForAnyCutThreadsAndInstructionSet) {
  const int64_t rows = 200, outputs = 700, inputs = 600;
  const Tensor x = random(rows, inputs), w = random(outputs, inputs),
               want = Tensor::empty({rows, outputs}, dtype(), context_);
  const auto memory = Tensor::empty({gemm_scratch + 64}, Dtype::u8, context_);
  void* scratch = memory.data<uint8_t>() + (64 - reinterpret_cast<uintptr_t>(memory.raw()) % 64) % 64;
  // A bf16 sum over several blocks of k is kept for at most gemm_sums elements: well above 200 x 700.
  v3::gemm_tile(forward_tile(want, x, w), nullptr, scratch);
  for (const int64_t some : {int64_t{1}, int64_t{5}, int64_t{64}, rows}) {
    const Tensor out = Tensor::empty({some, outputs}, dtype(), context_);
    const GemmTile tile = forward_tile(out, x.slice(0, 0, some), w);
    gemm({&tile, 1});
    EXPECT_EQ(bytes_of(out, some), bytes_of(want, some)) << some << " rows";
    if (machine_isa() != Isa::v4) continue;
    v4::gemm_tile(tile, nullptr, scratch);
    EXPECT_EQ(bytes_of(out, some), bytes_of(want, some)) << some << " rows, AVX-512";
  }
}

class MatrixUnit : public Products {
 protected:
  void SetUp() override {
    if (!machine_has_amx()) GTEST_SKIP() << "no AMX";
  }
  void TearDown() override { set_thread_count(threads_); }
  int threads_ = thread_count();
};
INSTANTIATE_TEST_SUITE_P(Dtypes, MatrixUnit, testing::Values(Dtype::bf16), [](const auto&) { return "bf16"; });

TEST_P(MatrixUnit, EveryLayoutMatchesDoubleLoopsBeyondItsBlocks) {
  // Terms: 1024 at once; columns of so many: 256, or 512 where a is packed too; packed rows of so many: 128.
  for (const auto& [rows, outputs, inputs] : {Sizes{270, 67, 1030}, {33, 300, 1024}, {1056, 40, 1100}}) {
    const Tensor x = random(rows, inputs), w = random(outputs, inputs), dy = random(rows, outputs);
    for (const Dtype type : {Dtype::bf16, Dtype::f32}) {
      const Guarded out(rows, outputs, type, context_), dx(rows, inputs, type, context_);
      matmul_forward(stream_, out.tensor(), x, w, Write::replace);
      expect_product(out.tensor(), inputs, plain(x), transposed(w));
      matmul_input_gradient(stream_, dx.tensor(), dy, w, Write::replace);
      expect_product(dx.tensor(), outputs, plain(dy), plain(w));
      out.expect_band_untouched(), dx.expect_band_untouched();
    }
    const Tensor before = random(outputs, inputs, Dtype::f32);
    const Guarded dw(outputs, inputs, Dtype::f32, context_);
    copy(dw.tensor(), before);
    matmul_weight_gradient(stream_, dw.tensor(), dy, x, Write::add);
    expect_product(dw.tensor(), rows, transposed(dy), plain(x), before);
    dw.expect_band_untouched();
  }
}

TEST_P(MatrixUnit, GivesTheSameBitsForAnyCutAndThreads) {
  // One thread keeps bf16 sums of 768 rows at once, more threads take fewer.
  const int64_t rows = 800, outputs = 700, inputs = 1100;
  const Tensor x = random(rows, inputs), w = random(outputs, inputs);
  for (const Dtype type : {Dtype::bf16, Dtype::f32}) {
    const Tensor want = Tensor::empty({rows, outputs}, type, context_);
    set_thread_count(1);
    matmul_forward(stream_, want, x, w, Write::replace);
    for (const int threads : {1, 2, 3}) {
      set_thread_count(threads);
      for (const int64_t some : {int64_t{1}, int64_t{5}, int64_t{64}, rows}) {
        const Tensor out = Tensor::empty({some, outputs}, type, context_);
        matmul_forward(stream_, out, x.slice(0, 0, some), w, Write::replace);
        EXPECT_EQ(bytes_of(out, some), bytes_of(want, some)) << some << " rows, " << threads << " threads";
      }
    }
  }
}

class OneDnn : public Products {
 protected:
  void SetUp() override {
    if (!onednn::available()) GTEST_SKIP() << onednn::description();
  }
};
INSTANTIATE_TEST_SUITE_P(Dtypes, OneDnn, testing::Values(Dtype::bf16), [](const auto&) { return "bf16"; });

TEST_P(OneDnn, EveryLayoutMatchesDoubleLoops) {
  for (const auto& [rows, outputs, inputs] : sizes) {
    const Tensor x = random(rows, inputs), w = random(outputs, inputs), dy = random(rows, outputs);
    PackCache packs;
    for (PackCache* cache : {static_cast<PackCache*>(nullptr), &packs, &packs}) {  // plain, packed now, packed before
      const Guarded out(rows, outputs, Dtype::bf16, context_), dx(rows, inputs, Dtype::f32, context_);
      GemmTile p = forward_tile(out.tensor(), x, w);
      onednn::multiply(p, cache, 0);
      expect_product(out.tensor(), inputs, plain(x), transposed(w));
      p = {.m = rows,
           .n = inputs,
           .k = outputs,
           .a = {dy.raw(), Dtype::bf16, outputs, 1},
           .b = {w.raw(), Dtype::bf16, inputs, 1},
           .c = {dx.tensor().raw(), Dtype::f32, inputs},
           .add = false};
      onednn::multiply(p, cache, 1);
      expect_product(dx.tensor(), outputs, plain(dy), plain(w));
      out.expect_band_untouched(), dx.expect_band_untouched();
    }
    const Tensor before = random(outputs, inputs, Dtype::f32);
    const Guarded dw(outputs, inputs, Dtype::f32, context_);
    copy(dw.tensor(), before);
    onednn::multiply({.m = outputs,
                      .n = inputs,
                      .k = rows,
                      .a = {dy.raw(), Dtype::bf16, 1, outputs},
                      .b = {x.raw(), Dtype::bf16, inputs, 1},
                      .c = {dw.tensor().raw(), Dtype::f32, inputs},
                      .add = true},
                     nullptr, 0);
    expect_product(dw.tensor(), rows, transposed(dy), plain(x), before);
    dw.expect_band_untouched();
  }
}

TEST_P(OneDnn, GivesTheSameBitsForAnyNumberOfThreads) {
  const int before = thread_count();
  for (const int64_t outputs : {33, 130, 300, 1024})  // of the weight gradient, shared out as rows of the others are
    for (const int64_t rows : {33, 257, 1000}) {
      const int64_t inputs = 512;
      const Tensor x = random(rows, inputs), w = random(outputs, inputs), dy = random(rows, outputs);
      std::vector<unsigned char> y, dw;
      for (const int threads : {1, 2, 3, 5}) {
        set_thread_count(threads);
        const Tensor out = Tensor::empty({rows, outputs}, Dtype::f32, context_);
        const Tensor gradient = Tensor::empty({outputs, inputs}, Dtype::f32, context_);
        PackCache packs;
        onednn::multiply(forward_tile(out, x, w), &packs, 0);
        onednn::multiply({.m = outputs,
                          .n = inputs,
                          .k = rows,
                          .a = {dy.raw(), Dtype::bf16, 1, outputs},
                          .b = {x.raw(), Dtype::bf16, inputs, 1},
                          .c = {gradient.raw(), Dtype::f32, inputs},
                          .add = false},
                         nullptr, 0);
        if (threads == 1) y = bytes_of(out, rows), dw = bytes_of(gradient, outputs);
        EXPECT_EQ(bytes_of(out, rows), y) << rows << " rows, " << outputs << " outputs, " << threads << " threads";
        EXPECT_EQ(bytes_of(gradient, outputs), dw) << rows << " rows, " << outputs << " outputs, " << threads;
      }
    }
  set_thread_count(before);
}

TEST_P(OneDnn, PackedWeightsAreKeptUntilCleared) {
  const Tensor x = random(9, 64), w = random(32, 64), first = Tensor::empty({9, 32}, Dtype::f32, context_);
  const Tensor again = Tensor::like(first);
  PackCache packs;
  onednn::multiply(forward_tile(first, x, w), &packs, 0);
  set(w, 0, 0, 1000);
  onednn::multiply(forward_tile(again, x, w), &packs, 0);
  EXPECT_EQ(bytes_of(again, 9), bytes_of(first, 9));
  packs.clear();
  onednn::multiply(forward_tile(again, x, w), &packs, 0);
  EXPECT_NE(bytes_of(again, 9), bytes_of(first, 9));
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

TEST_P(Products, ErrorsNameTheTensorAndWhatWasExpected) {
  const Tensor x = random(3, 4), w = random(5, 4), out = random(3, 6);
  EXPECT_EQ(message_of([&] { matmul_forward(stream_, out, x, w, Write::replace); }),
            "[matmul] w has 5 rows of 4; expected 6 of 4");
  EXPECT_EQ(
      message_of([&] { matmul_weight_gradient(stream_, random(6, 4, accumulator()), out, random(2, 4), Write::add); }),
      "[matmul weight gradient] x has 2 rows of 4; expected 3 of 4");
  const Offsets wrong{0, 2, 1, 3}, few{0, 3};
  const Tensor stack = random(15, 4).reshape({3, 5, 4}), y = random(3, 5);
  EXPECT_EQ(message_of([&] { grouped_matmul_forward(stream_, y, x, stack, on_host(wrong), Write::replace); }),
            "[grouped matmul] offsets are not rising within 0 .. 3");
  EXPECT_EQ(message_of([&] { grouped_matmul_forward(stream_, y, x, stack, on_host(few), Write::replace); }),
            "[grouped matmul] 2 offsets for 3 experts; expected 4");
}

TEST_P(Products, OffsetsOfTheDeviceAreCheckedWhenTheyAreRead) {
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
  EXPECT_EQ(message(given({0, 1, 3}, 1)), "[grouped matmul] group 1 has 2 rows; expected 1 at most");
  EXPECT_EQ(message(given({0, 4, 3}, 4)), "[grouped matmul] offsets are not rising within 0 .. 3");
  EXPECT_EQ(message({.groups = 2}), "[grouped matmul] offsets are known neither to the host nor to the device");
}

// What a caller who widened the operands would get, without their copies.
TEST(ProductsOfMixedDtypes, GiveTheBitsOfWideOnes) {
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
            "[matmul] operands are f32 and bf16; expected one dtype");
  EXPECT_EQ(message_of([&] {
              matmul_forward(stream, zeros({3, 5}, Dtype::f64), x, w, Write::replace);
            }),
            "[matmul] the result of f32 operands is f64; expected f32");
  EXPECT_EQ(message_of([&] {
              matmul_forward(stream, zeros({3, 5}, Dtype::bf16), zeros({3, 4}, Dtype::bf16), w, Write::replace);
            }),
            "[matmul] the result of f32 operands is bf16; expected f32");
  EXPECT_EQ(message_of([&] { matmul_input_gradient(stream, x, out, narrow, Write::replace); }),
            "[matmul gradient] operands are f32 and bf16; expected one dtype");
}

}  // namespace
}  // namespace hexad::kernels::cpu
