// Engines of products on the CPU: loops for each instruction set, and units that multiply pairs of bf16.
#include <cmath>

#include "framework/kernels/cpu/parallel.h"
#include "framework/kernels/cpu/products/gemm.h"
#include "framework/kernels/cpu/simd/isa.h"
#include "tests/kernels/product_cases.h"
#include "tests/support/fenced.h"

namespace hexad::kernels::cpu {
namespace {

Operand operand(const Tensor& t) { return {t.raw(), t.dtype(), t.strides()[0], 1}; }
Operand transposed_operand(const Tensor& t) { return {t.raw(), t.dtype(), 1, t.strides()[0]}; }
Result result(const Tensor& t) { return {t.raw(), t.dtype(), t.strides()[0]}; }

GemmTile forward_tile(const Tensor& out, const Tensor& x, const Tensor& w) {
  return {.m = x.dim(0),
          .n = w.dim(0),
          .k = x.dim(1),
          .a = operand(x),
          .b = transposed_operand(w),
          .c = result(out),
          .add = false};
}

GemmTile input_gradient_tile(const Tensor& dx, const Tensor& dy, const Tensor& w) {
  return {
      .m = dy.dim(0), .n = w.dim(1), .k = w.dim(0), .a = operand(dy), .b = operand(w), .c = result(dx), .add = false};
}

/// Returns the tile of a weight gradient, which is added to dw.
GemmTile weight_gradient_tile(const Tensor& dw, const Tensor& dy, const Tensor& x) {
  return {.m = dy.dim(1),
          .n = x.dim(1),
          .k = dy.dim(0),
          .a = transposed_operand(dy),
          .b = operand(x),
          .c = result(dw),
          .add = true};
}

class OwnKernels : public ProductTest {};
INSTANTIATE_TEST_SUITE_P(Dtypes, OwnKernels, testing::Values(Dtype::f32, Dtype::bf16, Dtype::f64),
                         [](const auto& p) { return std::string(name_of(p.param)); });

TEST_P(OwnKernels, AreBitwiseIdenticalForAnyCutAndInstructionSet) {
  const int64_t rows = 200, outputs = 700, inputs = 600;
  const Tensor x = random(rows, inputs), w = random(outputs, inputs),
               want = Tensor::empty({rows, outputs}, dtype(), context_);
  const auto memory = Tensor::empty({gemm_scratch + 64}, Dtype::u8, context_);
  void* scratch = memory.data<uint8_t>() + (64 - reinterpret_cast<uintptr_t>(memory.raw()) % 64) % 64;
  // A tile of a bf16 result with several blocks of k has at most gemm_sums elements. gemm_sums is more than 200 x 700.
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

/// Returns the units of this machine that multiply pairs of bf16.
std::vector<Unit> pair_units() {
  std::vector<Unit> units;
  if (machine_has_dot()) units.push_back(Unit::dot);
  if (machine_has_amx()) units.push_back(Unit::matrix);
  return units;
}

class PairUnits : public ProductTest {
 protected:
  void SetUp() override {
    if (pair_units().empty()) GTEST_SKIP() << "this machine has neither AVX-512 BF16 nor AMX";
  }
  void TearDown() override { set_thread_count(threads_); }

  /// Multiplies copies of the operands that end at a fence. A read beyond the fence crashes the test.
  static void multiply(Unit unit, GemmTile product, const Tensor& a, const Tensor& b) {
    const tests::Fenced left(a), right(b);
    product.a.data = left.data(), product.b.data = right.data();
    gemm({&product, 1}, unit);
  }
  int threads_ = thread_count();
};
INSTANTIATE_TEST_SUITE_P(Dtypes, PairUnits, testing::Values(Dtype::bf16), [](const auto&) { return "bf16"; });

TEST_P(PairUnits, MatchDoubleLoopsInEveryLayoutBeyondTheirBlocks) {
  // A unit processes 1024 terms, 64 or 128 packed rows, and 128 or 256 columns together. A unit processes twice as many
  // columns if the left operand is also packed. The last strips of rows have many heights from 1 to 32, because AVX-512
  // BF16 computes 3, 6, 10 or 11 rows together.
  std::vector<Sizes> all(std::begin(sizes), std::end(sizes));
  for (const Sizes& s :
       {Sizes{270, 67, 1030}, {33, 300, 1024}, {1056, 40, 1100}, {35, 33, 2048}, {3, 1, 64}, {43, 31, 65}, {22, 5, 96}})
    all.push_back(s);
  for (const Unit unit : pair_units())
    for (const auto& [rows, outputs, inputs] : all) {
      SCOPED_TRACE(testing::Message() << "unit " << static_cast<int>(unit) << ", " << rows << " rows, " << outputs
                                      << " outputs, " << inputs << " inputs");
      const Tensor x = random(rows, inputs, Dtype::bf16, 6), w = random(outputs, inputs, Dtype::bf16, 1),
                   dy = random(rows, outputs, Dtype::bf16, 3);
      for (const Dtype type : {Dtype::bf16, Dtype::f32}) {
        const Guarded out(rows, outputs, type, context_, 5), dx(rows, inputs, type, context_);
        multiply(unit, forward_tile(out.tensor(), x, w), x, w);
        multiply(unit, input_gradient_tile(dx.tensor(), dy, w), dy, w);
        expect_product(out.tensor(), inputs, plain(x), transposed(w));
        expect_product(dx.tensor(), outputs, plain(dy), plain(w));
        out.expect_band_untouched(), dx.expect_band_untouched();
      }
      const Tensor before = random(outputs, inputs, Dtype::f32);
      const Guarded dw(outputs, inputs, Dtype::f32, context_);
      copy(dw.tensor(), before);
      multiply(unit, weight_gradient_tile(dw.tensor(), dy, x), dy, x);
      expect_product(dw.tensor(), rows, transposed(dy), plain(x), before);
      dw.expect_band_untouched();
    }
}

TEST_P(PairUnits, AreBitwiseIdenticalForAnyCutAndThreads) {
  // A single thread holds the sums of bf16 results for many rows. Each of several threads holds the sums for fewer
  // rows. A left operand that is not transposed is read in place, row by row. A transposed operand is packed.
  const int64_t rows = 800, outputs = 700, inputs = 1100;
  const Tensor x = random(rows, inputs), across = random(inputs, rows), w = random(outputs, inputs);
  for (const Unit unit : pair_units())
    for (const Dtype type : {Dtype::bf16, Dtype::f32})
      for (const Operand& left : {operand(x), transposed_operand(across)}) {
        const auto first_rows = [&](int64_t some, int threads) {
          const Tensor out = Tensor::empty({some, outputs}, type, context_);
          GemmTile product = forward_tile(out, x.slice(0, 0, some), w);
          product.a = left;
          set_thread_count(threads);
          gemm({&product, 1}, unit);
          return bytes_of(out, some);
        };
        const std::vector<unsigned char> want = first_rows(rows, 1);
        for (const int threads : {1, 2, 3})
          for (const int64_t some : {int64_t{1}, int64_t{5}, int64_t{11}, int64_t{64}, rows}) {
            const std::vector<unsigned char> got = first_rows(some, threads);
            EXPECT_TRUE(std::equal(got.begin(), got.end(), want.begin())) << some << " rows, " << threads << " threads";
          }
      }
}

TEST_P(PairUnits, KeepNanAndInfinityInTheirRowsAndTreatSubnormalsAsZero) {
  const int64_t rows = 40, outputs = 35, inputs = 65;
  const double smallest_normal = 0x1p-126;
  for (const Unit unit : pair_units()) {
    const Tensor x = random(rows, inputs), w = random(outputs, inputs),
                 out = Tensor::empty({rows, outputs}, Dtype::f32, context_);
    for (int64_t j = 0; j < outputs; ++j) set(w, j, 64, 1);
    for (int64_t k = 0; k < inputs; ++k) set(x, 5, k, smallest_normal / 4);
    set(x, 33, 64, std::nan("")), set(x, 39, 64, -HUGE_VAL);
    multiply(unit, forward_tile(out, x, w), x, w);
    const Values got(out);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < outputs; ++j) {
        if (i == 33) {
          EXPECT_TRUE(std::isnan(got(i, j))) << j;
        } else if (i == 39) {
          EXPECT_EQ(got(i, j), -HUGE_VAL) << j;
        } else {
          EXPECT_TRUE(std::isfinite(got(i, j))) << i << ", " << j;
        }
        if (i == 5) {
          EXPECT_EQ(got(i, j), 0) << j;
        }
      }
  }
}

}  // namespace
}  // namespace hexad::kernels::cpu
