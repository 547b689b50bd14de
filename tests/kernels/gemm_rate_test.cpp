#include "framework/kernels/gemm_rate.h"

#include <gtest/gtest.h>

namespace hexad::kernels {
namespace {

TEST(GemmRate, NamesTheShapeThatReachedIt) {
  device::DeviceContext context;
  const GemmRate rate = measure_gemm_rate(context, Dtype::f32, 0);
  EXPECT_GT(rate.flops_per_second, 0);
  EXPECT_GE(rate.rows, 1024);
  EXPECT_GE(rate.inputs, 1024);
  EXPECT_GE(rate.outputs, 1024);
}

}  // namespace
}  // namespace hexad::kernels
