// Compares the CUDA test double's tensor core instructions with plain products.
#include "framework/kernels/cuda/attention/mma.cuh"

#include <gtest/gtest.h>

#include "tests/support/cuda_double/kernels/block.h"

namespace hexad::kernels::cuda::mma {
namespace {

constexpr int terms = 16, columns = 8;

/// Returns an element of a factor. The elements are whole numbers, so that sums are exact.
float left_element(int r, int k) { return static_cast<float>((r * 7 + k * 3) % 11 - 5); }
float right_element(int k, int c) { return static_cast<float>((k * 5 + c * 13) % 9 - 4); }

// Loads both factors from shared memory as in the attention kernels. Both factors are stored by rows; load_transposed()
// turns the rows of the right factor into columns.
__global__ void product(float* out) {
  alignas(16) __shared__ __nv_bfloat16 left[16 * terms], right[terms * 16];
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = lane; i < 16 * terms; i += 32) {
    left[i] = __float2bfloat16_rn(left_element(i / terms, i % terms));
    right[i] = __float2bfloat16_rn(right_element(i / 16, i % 16));
  }
  __syncwarp();
  uint32_t a[4], b[4];
  load(a, left, (lane % 16) * terms + lane / 16 * 8);
  load_transposed(b, right, (lane % 16) * 16 + lane / 16 * 8);
  float sums[2][4] = {{1, 1, 1, 1}, {1, 1, 1, 1}};
  multiply_add(sums[0], a, b[0], b[1]);
  multiply_add(sums[1], a, b[2], b[3]);
  for (int half = 0; half < 2; ++half)
    for (int e = 0; e < 4; ++e)
      out[(lane / 4 + e / 2 * 8) * 2 * columns + half * columns + lane % 4 * 2 + e % 2] = sums[half][e];
}

TEST(CudaDoubleMma, MultipliesLikeAPlainLoop) {
  std::vector<float> out(16 * 16, -1);
  cuda_double::run_grid({.kernel = "product", .blocks = dim3(1), .threads = dim3(32), .order = 3},
                        [&] { product(out.data()); });
  for (int r = 0; r < 16; ++r)
    for (int c = 0; c < 16; ++c) {
      float expected = 1;
      for (int k = 0; k < terms; ++k) expected += left_element(r, k) * right_element(k, c);
      EXPECT_EQ(out[r * 16 + c], expected) << r << ", " << c;
    }
}

TEST(CudaDoubleMma, RowsMustBeAligned) {
  std::vector<__nv_bfloat16> memory(64);
  EXPECT_THROW(cuda_double::run_grid({.kernel = "load", .blocks = dim3(1), .threads = dim3(32)},
                                     [&] {
                                       uint32_t a[4];
                                       load(a, memory.data(), 1);
                                     }),
               std::runtime_error);
}

TEST(CudaDoubleMma, PacksTheLowerHalfFirstAndFlushesSubnormalPowers) {
  EXPECT_EQ(pack(1.0f, -2.0f), 0xc0003f80u);
  EXPECT_EQ(exp2(-3.0f), 0.125f);
  EXPECT_EQ(exp2(-127.0f), 0.0f);
}

}  // namespace
}  // namespace hexad::kernels::cuda::mma
