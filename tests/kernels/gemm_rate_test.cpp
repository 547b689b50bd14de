#include "framework/kernels/gemm_rate.h"

#include <gtest/gtest.h>

namespace hexad::kernels {
namespace {

TEST(GemmRate, MeasurementReturnsARateAndItsShape) {
  device::DeviceContext context;
  const GemmRate rate = measure_gemm_rate(context, Dtype::f32, 0);
  EXPECT_GT(rate.flops_per_second, 0);
  EXPECT_GE(rate.rows, 1024);
  EXPECT_GE(rate.inputs, 1024);
  EXPECT_GE(rate.outputs, 1024);
}

TEST(GemmRate, SamplingStartsAtTheGivenSize) {
  device::DeviceContext context;
  const GemmRate first = sample_gemm_rate(context, Dtype::f32, 0), next = sample_gemm_rate(context, Dtype::f32, 512);
  EXPECT_GT(first.flops_per_second, 0);
  EXPECT_GE(first.rows, 256);
  EXPECT_GE(next.rows, 512);
}

TEST(GemmRate, RefusesAnImplementationWithWrongResults) {
  device::DeviceContext context;
  const auto forward = [&](const Tensor& out, const Tensor& x, const Tensor& w) {
    kernels(context).matmul.forward(context.compute(), out, x, w, Write::replace);
  };
  EXPECT_GT(measure_gemm_rate(context, Dtype::f32, 0, forward).flops_per_second, 0);
  const auto forgets_the_last_row = [&](const Tensor& out, const Tensor& x, const Tensor& w) {
    kernels(context).pointwise.fill(context.compute(), out, 0);
    const int64_t rows = out.dim(0) - 1;
    forward(out.slice(0, 0, rows), x.slice(0, 0, rows), w);
  };
  EXPECT_THROW(measure_gemm_rate(context, Dtype::f32, 0, forgets_the_last_row), std::logic_error);
}

}  // namespace
}  // namespace hexad::kernels
