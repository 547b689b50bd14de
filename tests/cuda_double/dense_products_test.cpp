// What cuBLASLt is asked for dense products: how many multiprocessors they take.
#include <gtest/gtest.h>

#include "framework/base/error.h"
#include "framework/kernels/cuda/products/multiprocessors.h"
#include "framework/kernels/kernel_table.h"
#include "tests/support/cuda_double/blas_lt.h"

namespace hexad::kernels::cuda {

using namespace base;
namespace {

/// Multiplies [rows, width] by [features, width] transposed, in f32.
void multiply(device::DeviceContext& context, int64_t rows = 3, int64_t features = 5, int64_t width = 4) {
  const Tensor x = Tensor::zeros({rows, width}, Dtype::f32, context);
  const Tensor w = Tensor::zeros({features, width}, Dtype::f32, context);
  const Tensor y = Tensor::empty({rows, features}, Dtype::f32, context);
  kernels(context).matmul.forward(context.compute(), y, x, w, Write::replace);
  context.compute().synchronize();
}

int multiprocessors(device::DeviceContext& context) {
  return multiprocessors_of_products(device::cuda::cuda_stream(context.compute()).card());
}

TEST(DenseProducts, TakeAllMultiprocessorsWithoutALimit) {
  device::DeviceContext context({.kind = device::DeviceKind::cuda});
  multiply(context);
  EXPECT_EQ(cuda_double::last_multiprocessors(), 0);
  EXPECT_EQ(multiprocessors(context), 132);
}

TEST(DenseProducts, LeaveReservedMultiprocessorsToCommunication) {
  for (const auto& [reserve, left] : {std::pair{1, 130}, {24, 108}, {130, 2}}) {
    device::DeviceContext context({.kind = device::DeviceKind::cuda, .reserved_multiprocessors = reserve});
    multiply(context);
    EXPECT_EQ(cuda_double::last_multiprocessors(), left) << reserve;
    EXPECT_EQ(multiprocessors(context), left) << reserve;
  }
}

TEST(DenseProducts, StayWithinTheSmallerOfReserveAndComputeShare) {
  device::DeviceContext context({.kind = device::DeviceKind::cuda, .reserved_multiprocessors = 24});
  {
    const ComputeShare share(0.5);
    multiply(context);
    EXPECT_EQ(cuda_double::last_multiprocessors(), 66);
  }
  const ComputeShare share(0.9);  // 118
  multiply(context);
  EXPECT_EQ(cuda_double::last_multiprocessors(), 108);
}

TEST(DenseProducts, NeedTwoMultiprocessors) {
  for (const int reserve : {131, 1000, -1}) try {
      const device::DeviceContext context({.kind = device::DeviceKind::cuda, .reserved_multiprocessors = reserve});
      ADD_FAILURE() << reserve;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::usage);
      EXPECT_NE(std::string(e.what()).find(
                    cat("distributed.reserve_multiprocessors (", reserve, ") must be from 0 to 130, because the ")),
                std::string::npos)
          << e.what();
    }
}

}  // namespace
}  // namespace hexad::kernels::cuda
