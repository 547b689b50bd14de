// What cuBLASLt is asked for dense products: how many multiprocessors they take, and how often it chooses a kernel.
#include <gtest/gtest.h>

#include <set>

#include "framework/base/error.h"
#include "framework/kernels/cuda/products/multiprocessors.h"
#include "framework/kernels/cuda/products/plan_cache.h"
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

/// Returns the number of kernels that cuBLASLt chooses in `work`.
template <class F>
int64_t choices_in(const F& work) {
  const int64_t before = cuda_double::heuristic_calls();
  work();
  return cuda_double::heuristic_calls() - before;
}

constexpr int64_t most_rows = 300;

TEST(DenseProducts, OfSimilarNumbersOfRowsShareAKernel) {
  device::DeviceContext context({.kind = device::DeviceKind::cuda});
  std::set<int64_t> distinct;
  for (int64_t rows = 1; rows <= most_rows; ++rows) distinct.insert(rounded_rows(rows));
  const auto all = [&] {
    for (int64_t rows = 1; rows <= most_rows; ++rows) multiply(context, rows);
  };
  EXPECT_EQ(choices_in(all), std::ssize(distinct));
  EXPECT_EQ(choices_in(all), 0);
  EXPECT_EQ(choices_in([&] { multiply(context, 3, 6); }), 1);  // other features are another product
}

TEST(DenseProducts, OfWeightGradientsShareAKernelToo) {
  device::DeviceContext context({.kind = device::DeviceKind::cuda});
  const Tensor dw = Tensor::zeros({5, 4}, Dtype::f32, context);
  const auto chosen_for = [&](int64_t rows) {
    const auto ones = [&](int64_t width) {
      return Tensor::from<float>(std::vector<float>(rows * width, 1), {rows, width}, context);
    };
    const Tensor dy = ones(5), x = ones(4);
    return choices_in([&] {
      kernels(context).matmul.weight_gradient(context.compute(), dw, dy, x, Write::replace);
      EXPECT_EQ(dw.to_vector<float>(), std::vector<float>(20, static_cast<float>(rows)));
    });
  };
  EXPECT_EQ(chosen_for(288), 1);
  for (const int64_t rows : {257, 258, 281}) EXPECT_EQ(chosen_for(rows), 0) << rows;
}

TEST(DenseProducts, ChooseAgainIfTheKernelOfSimilarRowsDoesNotSuit) {
  device::DeviceContext context({.kind = device::DeviceKind::cuda});
  const cuda_double::ChecksRefused refused;
  multiply(context, 288);
  EXPECT_EQ(choices_in([&] { multiply(context, 281); }), 1);
  EXPECT_EQ(choices_in([&] { multiply(context, 281); }), 0);
}

}  // namespace
}  // namespace hexad::kernels::cuda
