// Predicted times of grouped products compared with times measured on an H100 80GB HBM3, and the choices based on them.
#include "framework/kernels/cuda/products/grouped_seconds.h"

#include <gtest/gtest.h>

#include <vector>

namespace hexad::kernels::cuda {
namespace {

// TFLOP/s of balanced experts: a loop of cuBLASLt's products on one stream, and CUTLASS's kernel with its best tile.
struct Rates {
  double loop, one_kernel;
};
struct Measured {
  const char* name;
  int64_t rows, width, features, experts;
  Rates forward, weight_gradient;  // the weight gradient adds in f32
};
constexpr Measured measured[] = {
    {"Mixtral", 16384, 4096, 14336, 8, {801, 785}, {724, 432}},
    {"Qwen3-30B", 65536, 2048, 768, 128, {175, 581}, {200, 247}},
    {"Qwen3-30B, four times the rows", 262144, 2048, 768, 128, {387, 661}, {427, 476}},
    {"DeepSeek-V2-Lite", 49152, 2048, 1408, 64, {406, 618}, {402, 361}},
    {"bench-gpu", 32768, 2048, 1024, 32, {402, 623}, {405, 421}},
    {"bench-gpu, four times the rows", 131072, 2048, 1024, 32, {620, 638}, {651, 595}},
};

std::vector<int64_t> balanced(int64_t rows, int64_t experts) {
  std::vector<int64_t> offsets;
  for (int64_t e = 0; e <= experts; ++e) offsets.push_back(rows * e / experts);
  return offsets;
}

TEST(GroupedSeconds, AreNearTheMeasuredTimes) {
  for (const Measured& m : measured)
    for (const GroupedPass pass : {GroupedPass::forward, GroupedPass::weight_gradient}) {
      const std::vector<int64_t> offsets = balanced(m.rows, m.experts);
      const GroupedProduct p{pass, m.features, m.width, offsets, true};
      const Rates& rates = pass == GroupedPass::forward ? m.forward : m.weight_gradient;
      EXPECT_NEAR(p.flops(m.rows) / seconds_one_by_one(p) / 1e12 / rates.loop, 1, 0.25) << m.name;
      EXPECT_NEAR(p.flops(m.rows) / seconds_in_one_kernel(p) / 1e12 / rates.one_kernel, 1, 0.25) << m.name;
    }
}

// The faster method is chosen if the two differ by more than a tenth.
TEST(GroupedSeconds, ChooseTheFasterWay) {
  int clear = 0;
  for (const Measured& m : measured)
    for (const GroupedPass pass : {GroupedPass::forward, GroupedPass::weight_gradient}) {
      const std::vector<int64_t> offsets = balanced(m.rows, m.experts);
      const GroupedProduct p{pass, m.features, m.width, offsets, true};
      const Rates& rates = pass == GroupedPass::forward ? m.forward : m.weight_gradient;
      const double gain = rates.loop / rates.one_kernel;
      if (gain < 1.1 && gain > 1 / 1.1) continue;
      ++clear;
      EXPECT_EQ(seconds_one_by_one(p) < seconds_in_one_kernel(p), gain > 1) << m.name;
    }
  EXPECT_EQ(clear, 8);
}

TEST(GroupedSeconds, FollowTheLoadOfEachExpert) {
  const std::vector<int64_t> empty{5, 5, 5}, one{0, 0, 4096, 4096}, all{0, 1365, 2731, 4096};
  const GroupedProduct none{GroupedPass::forward, 1024, 2048, empty, false};
  EXPECT_EQ(seconds_one_by_one(none), 0);
  EXPECT_EQ(seconds_in_one_kernel(none), 0);
  const GroupedProduct skewed{GroupedPass::forward, 1024, 2048, one, false},
      even{GroupedPass::forward, 1024, 2048, all, false};
  EXPECT_LT(seconds_one_by_one(skewed), seconds_one_by_one(even));
}

}  // namespace
}  // namespace hexad::kernels::cuda
