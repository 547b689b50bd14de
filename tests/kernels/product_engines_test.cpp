// What computes products of the CPU: own loops by instruction set, the matrix unit, oneDNN.
#include "framework/kernels/cpu/parallel.h"
#include "framework/kernels/cpu/products/gemm.h"
#include "framework/kernels/cpu/products/onednn.h"
#include "framework/kernels/cpu/products/products.h"
#include "framework/kernels/cpu/simd/isa.h"
#include "framework/kernels/pack_cache.h"
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

class MatrixUnit : public ProductTest {
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

class OneDnn : public ProductTest {
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

}  // namespace
}  // namespace hexad::kernels::cpu
