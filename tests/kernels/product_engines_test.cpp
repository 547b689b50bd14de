// What computes products of the CPU: loops by instruction set, units for pairs of bf16.
#include "framework/kernels/cpu/parallel.h"
#include "framework/kernels/cpu/products/gemm.h"
#include "framework/kernels/cpu/simd/isa.h"
#include "tests/kernels/products.h"

namespace hexad::kernels::cpu {
namespace {

GemmTile forward_tile(const Tensor& out, const Tensor& x, const Tensor& w) {
  return {.m = x.dim(0),
          .n = w.dim(0),
          .k = x.dim(1),
          .a = {x.raw(), x.dtype(), x.dim(1), 1},
          .b = {w.raw(), w.dtype(), 1, w.dim(1)},
          .c = {out.raw(), out.dtype(), w.dim(0)},
          .add = false};
}

GemmTile input_gradient_tile(const Tensor& dx, const Tensor& dy, const Tensor& w) {
  return {.m = dy.dim(0),
          .n = w.dim(1),
          .k = w.dim(0),
          .a = {dy.raw(), dy.dtype(), dy.dim(1), 1},
          .b = {w.raw(), w.dtype(), w.dim(1), 1},
          .c = {dx.raw(), dx.dtype(), w.dim(1)},
          .add = false};
}

/// Adds.
GemmTile weight_gradient_tile(const Tensor& dw, const Tensor& dy, const Tensor& x) {
  return {.m = dy.dim(1),
          .n = x.dim(1),
          .k = dy.dim(0),
          .a = {dy.raw(), dy.dtype(), 1, dy.dim(1)},
          .b = {x.raw(), x.dtype(), x.dim(1), 1},
          .c = {dw.raw(), dw.dtype(), x.dim(1)},
          .add = true};
}

class OwnKernels : public ProductTest {};
INSTANTIATE_TEST_SUITE_P(Dtypes, OwnKernels, testing::Values(Dtype::f32, Dtype::bf16, Dtype::f64),
                         [](const auto& p) { return std::string(name_of(p.param)); });

TEST_P(OwnKernels, GiveTheSameBitsForAnyCutThreadsAndInstructionSet) {
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

/// What multiplies pairs of bf16 here.
std::vector<Unit> pair_units() {
  std::vector<Unit> units;
  if (machine_has_dot()) units.push_back(Unit::dot);
  if (machine_has_amx()) units.push_back(Unit::matrix);
  return units;
}

class PairUnits : public ProductTest {
 protected:
  void SetUp() override {
    if (pair_units().empty()) GTEST_SKIP() << "neither AVX-512 BF16 nor AMX";
  }
  void TearDown() override { set_thread_count(threads_); }
  int threads_ = thread_count();
};
INSTANTIATE_TEST_SUITE_P(Dtypes, PairUnits, testing::Values(Dtype::bf16), [](const auto&) { return "bf16"; });

TEST_P(PairUnits, MatchDoubleLoopsInEveryLayoutBeyondTheirBlocks) {
  // Terms: 1024 at once; columns of so many: 128 or 256, twice as many where a is packed too; packed rows of so many:
  // 64 or 128. One to 32 rows of a strip are computed.
  std::vector<Sizes> all(std::begin(sizes), std::end(sizes));
  for (const Sizes& s :
       {Sizes{270, 67, 1030}, {33, 300, 1024}, {1056, 40, 1100}, {35, 33, 2048}, {3, 1, 64}, {43, 31, 65}})
    all.push_back(s);
  for (const Unit unit : pair_units())
    for (const auto& [rows, outputs, inputs] : all) {
      SCOPED_TRACE(testing::Message() << "unit " << static_cast<int>(unit) << ", " << rows << " rows, " << outputs
                                      << " outputs, " << inputs << " inputs");
      const Tensor x = random(rows, inputs), w = random(outputs, inputs), dy = random(rows, outputs);
      for (const Dtype type : {Dtype::bf16, Dtype::f32}) {
        const Guarded out(rows, outputs, type, context_), dx(rows, inputs, type, context_);
        const GemmTile products[] = {forward_tile(out.tensor(), x, w), input_gradient_tile(dx.tensor(), dy, w)};
        gemm(products, unit);
        expect_product(out.tensor(), inputs, plain(x), transposed(w));
        expect_product(dx.tensor(), outputs, plain(dy), plain(w));
        out.expect_band_untouched(), dx.expect_band_untouched();
      }
      const Tensor before = random(outputs, inputs, Dtype::f32);
      const Guarded dw(outputs, inputs, Dtype::f32, context_);
      copy(dw.tensor(), before);
      const GemmTile product = weight_gradient_tile(dw.tensor(), dy, x);
      gemm({&product, 1}, unit);
      expect_product(dw.tensor(), rows, transposed(dy), plain(x), before);
      dw.expect_band_untouched();
    }
}

TEST_P(PairUnits, GiveTheSameBitsForAnyCutAndThreads) {
  // One thread keeps bf16 sums of many rows at once, more threads take fewer.
  const int64_t rows = 800, outputs = 700, inputs = 1100;
  const Tensor x = random(rows, inputs), w = random(outputs, inputs);
  for (const Unit unit : pair_units())
    for (const Dtype type : {Dtype::bf16, Dtype::f32}) {
      const Tensor want = Tensor::empty({rows, outputs}, type, context_);
      const GemmTile whole = forward_tile(want, x, w);
      set_thread_count(1);
      gemm({&whole, 1}, unit);
      for (const int threads : {1, 2, 3}) {
        set_thread_count(threads);
        for (const int64_t some : {int64_t{1}, int64_t{5}, int64_t{11}, int64_t{64}, rows}) {
          const Tensor out = Tensor::empty({some, outputs}, type, context_);
          const GemmTile part = forward_tile(out, x.slice(0, 0, some), w);
          gemm({&part, 1}, unit);
          EXPECT_EQ(bytes_of(out, some), bytes_of(want, some)) << some << " rows, " << threads << " threads";
        }
      }
    }
}

}  // namespace
}  // namespace hexad::kernels::cpu
