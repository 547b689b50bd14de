// Multiprocessors and kernels that dense products request from cuBLASLt, offsets of grouped products, and
// multiprocessors on which the loss is computed.
#include <gtest/gtest.h>

#include <set>
#include <stdexcept>
#include <vector>

#include "framework/base/error.h"
#include "framework/kernels/cuda/products/multiprocessors.h"
#include "framework/kernels/cuda/products/problem_cache.h"
#include "framework/kernels/kernel_table.h"
#include "tests/support/cuda_double/blas_lt.h"
#include "tests/support/cuda_double/device.h"
#include "tests/support/cuda_double/launches.h"

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
    EXPECT_EQ(device::cuda::cuda_stream(context.compute()).card().reserved(), 132 - left) << reserve;
    EXPECT_EQ(cuda_double::last_multiprocessors(), left) << reserve;
    EXPECT_EQ(multiprocessors(context), left) << reserve;
  }
}

TEST(DenseProducts, TakeAnEvenNumberBesideAReserveOfAnOddCard) {
  const cuda_double::Multiprocessors odd(133);
  for (const auto& [reserve, left] : {std::pair{1, 132}, {2, 130}, {3, 130}, {131, 2}}) {
    device::DeviceContext context({.kind = device::DeviceKind::cuda, .reserved_multiprocessors = reserve});
    multiply(context);
    EXPECT_EQ(device::cuda::cuda_stream(context.compute()).card().reserved(), 133 - left) << reserve;
    EXPECT_EQ(cuda_double::last_multiprocessors(), left) << reserve;
    EXPECT_EQ(multiprocessors(context), left) << reserve;
  }
  device::DeviceContext context({.kind = device::DeviceKind::cuda});
  multiply(context);
  EXPECT_EQ(cuda_double::last_multiprocessors(), 0);
  EXPECT_EQ(multiprocessors(context), 133) << "without a reserve, products take all multiprocessors";
}

TEST(DenseProducts, StayWithinTheSmallerOfReserveAndComputeShare) {
  device::DeviceContext context({.kind = device::DeviceKind::cuda, .reserved_multiprocessors = 24});
  {
    const ComputeShare share(0.5);
    multiply(context);
    EXPECT_EQ(cuda_double::last_multiprocessors(), 66);
  }
  const ComputeShare share(0.9);  // 118.8 of 132 multiprocessors, rounded down to 118; the reserve leaves 108
  multiply(context);
  EXPECT_EQ(cuda_double::last_multiprocessors(), 108);
}

TEST(DenseProducts, NeedTwoMultiprocessors) {
  for (const int reserve : {131, 1000, -1}) try {
      const device::DeviceContext context({.kind = device::DeviceKind::cuda, .reserved_multiprocessors = reserve});
      ADD_FAILURE() << "a reserve of " << reserve << " multiprocessors was accepted; expected an error";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::usage);
      EXPECT_NE(std::string(e.what()).find(
                    cat("distributed.reserve_multiprocessors (", reserve, ") must be from 0 to 130, because the ")),
                std::string::npos)
          << e.what();
    }
}

// A block for rows of 1024 logits has 32 threads, and a multiprocessor runs 32 such blocks at a time.
TEST(CrossEntropy, LeavesReservedMultiprocessorsToCommunication) {
  const cuda_double::Multiprocessors few(8);
  constexpr int64_t rows = 300, vocabulary = 1024;
  std::vector<float> values(rows * vocabulary);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 17);
  std::vector<std::vector<float>> losses;
  for (const auto& [reserve, left] : {std::pair{0, 8}, {2, 6}}) {
    device::DeviceContext context({.kind = device::DeviceKind::cuda, .reserved_multiprocessors = reserve});
    const Tensor logits = Tensor::from<float>(values, {rows, vocabulary}, context),
                 targets = Tensor::zeros({rows}, Dtype::i32, context), out = Tensor::empty({rows}, Dtype::f32, context);
    kernels(context).cross_entropy.forward(context.compute(), out, {}, logits, targets, 1);
    losses.push_back(out.to_vector<float>());
    EXPECT_EQ(cuda_double::last_blocks("cross_entropy"), left * 32);
  }
  EXPECT_EQ(losses[0], losses[1]);
}

/// Returns the number of kernels that cuBLASLt chooses in `work`.
template <class F>
int64_t choices_in(const F& work) {
  const int64_t before = cuda_double::heuristic_calls();
  work();
  return cuda_double::heuristic_calls() - before;
}

constexpr int64_t max_rows = 300;

TEST(DenseProducts, ShareAKernelForSimilarNumbersOfRows) {
  device::DeviceContext context({.kind = device::DeviceKind::cuda});
  std::set<int64_t> distinct;
  for (int64_t rows = 1; rows <= max_rows; ++rows) distinct.insert(rounded_rows(rows));
  const auto all = [&] {
    for (int64_t rows = 1; rows <= max_rows; ++rows) multiply(context, rows);
  };
  EXPECT_EQ(choices_in(all), std::ssize(distinct));
  EXPECT_EQ(choices_in(all), 0);
  EXPECT_EQ(choices_in([&] { multiply(context, 3, 6); }), 1);  // another number of features needs another choice
}

TEST(DenseProducts, ShareAKernelAlsoForWeightGradients) {
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

TEST(DenseProducts, ChooseAgainIfTheCheckedKernelOfSimilarRowsDoesNotRun) {
  device::DeviceContext context({.kind = device::DeviceKind::cuda});
  const auto ones = [&](int64_t rows, int64_t width) {
    return Tensor::from<float>(std::vector<float>(rows * width, 1), {rows, width}, context);
  };
  const auto add_product = [&](int64_t rows) {
    const Tensor y = ones(rows, 5);
    kernels(context).matmul.forward(context.compute(), y, ones(rows, 4), ones(5, 4), Write::add);
    EXPECT_EQ(y.to_vector<float>(), std::vector<float>(rows * 5, 5));
  };
  const cuda_double::ChecksMislead misleading;
  EXPECT_EQ(choices_in([&] { add_product(288); }), 1);
  EXPECT_EQ(choices_in([&] { add_product(281); }), 1);
  EXPECT_EQ(choices_in([&] { add_product(281); }), 0);
}

TEST(GroupedProducts, NameAWrongOffsetAndItsRange) {
  device::DeviceContext context({.kind = device::DeviceKind::cuda});
  const Tensor x = Tensor::zeros({3, 4}, Dtype::f32, context), w = Tensor::zeros({3, 5, 4}, Dtype::f32, context);
  const Tensor y = Tensor::zeros({3, 5}, Dtype::f32, context);
  const std::vector<int64_t> wrong{0, 2, 1, 3};
  try {
    kernels(context).grouped_matmul.forward(context.compute(), y, x, w, GroupOffsets::on_host(wrong), Write::replace);
    FAIL() << "no error was thrown; expected an error that names the offset";
  } catch (const std::logic_error& e) {
    EXPECT_STREQ(e.what(), "[grouped matmul] offset 2 is 1; expected a whole number from 2 to 3");
  }
}

}  // namespace
}  // namespace hexad::kernels::cuda
