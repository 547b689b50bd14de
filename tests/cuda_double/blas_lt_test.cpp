// The CUDA test double of cuBLASLt multiplies as descriptors specify, and rejects calls that cuBLASLt would reject.
#include <cublasLt.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <future>
#include <vector>

#include "tests/support/cuda_double/blas_lt.h"
#include "tests/support/cuda_double/device.h"
#include "tests/support/cuda_double/stream.h"

namespace hexad::cuda_double {
namespace {

/// Product of f32 matrices [m, k] and [k, n], column-major as in cuBLASLt.
struct Product {
  int64_t m = 3, n = 5, k = 4, a_leading = 0, b_leading = 0, d_leading = 0;
  bool a_transposed = false, b_transposed = false;

  int64_t a_rows() const { return a_transposed ? k : m; }
  int64_t b_rows() const { return b_transposed ? n : k; }
  int64_t a_step() const { return std::max(a_leading, a_rows()); }
  int64_t b_step() const { return std::max(b_leading, b_rows()); }
  int64_t d_step() const { return std::max(d_leading, m); }
};

float number(int64_t i) { return static_cast<float>(i * 37 % 23 - 11); }

struct BlasLt : ::testing::Test {
  static constexpr size_t room = 1 << 16;
  BlasLt() {
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    EXPECT_EQ(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0), cudaSuccess);
    for (float** p : {&a, &b, &d, &workspace})
      EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(p), room * sizeof(float)), cudaSuccess);
    for (size_t i = 0; i < room; ++i) {
      a[i] = number(static_cast<int64_t>(i));
      b[i] = number(static_cast<int64_t>(i) + 5);
      d[i] = number(static_cast<int64_t>(i) + 9);
    }
    EXPECT_EQ(cublasLtCreate(&handle), CUBLAS_STATUS_SUCCESS);
  }
  ~BlasLt() override {
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    mend_devices();
    for (float* p : {a, b, d, workspace}) EXPECT_EQ(cudaFree(p), cudaSuccess);
    EXPECT_EQ(cublasLtDestroy(handle), CUBLAS_STATUS_SUCCESS);
    static_cast<void>(cudaGetLastError());
  }

  void describe(const Product& p) {
    EXPECT_EQ(cublasLtMatmulDescInit(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F), CUBLAS_STATUS_SUCCESS);
    const auto side = [&](cublasLtMatmulDescAttributes_t attribute, bool transposed) {
      const cublasOperation_t value = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
      EXPECT_EQ(cublasLtMatmulDescSetAttribute(&product, attribute, &value, sizeof value), CUBLAS_STATUS_SUCCESS);
    };
    side(CUBLASLT_MATMUL_DESC_TRANSA, p.a_transposed);
    side(CUBLASLT_MATMUL_DESC_TRANSB, p.b_transposed);
    const auto layout = [](cublasLtMatrixLayoutOpaque_t& to, int64_t rows, int64_t columns, int64_t leading) {
      EXPECT_EQ(cublasLtMatrixLayoutInit(&to, CUDA_R_32F, static_cast<uint64_t>(rows), static_cast<uint64_t>(columns),
                                         leading),
                CUBLAS_STATUS_SUCCESS);
    };
    layout(a_layout, p.a_rows(), p.a_transposed ? p.m : p.k, p.a_leading ? p.a_leading : p.a_rows());
    layout(b_layout, p.b_rows(), p.b_transposed ? p.k : p.n, p.b_leading ? p.b_leading : p.b_rows());
    layout(d_layout, p.m, p.n, p.d_leading ? p.d_leading : p.m);
  }
  cublasStatus_t choose(uint64_t max_workspace = room * sizeof(float)) {
    cublasLtMatmulPreferenceOpaque_t preference{};
    EXPECT_EQ(cublasLtMatmulPreferenceInit(&preference), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                   &max_workspace, sizeof max_workspace),
              CUBLAS_STATUS_SUCCESS);
    int found = 0;
    return cublasLtMatmulAlgoGetHeuristic(handle, &product, &a_layout, &b_layout, &d_layout, &d_layout, &preference, 1,
                                          &chosen, &found);
  }
  cublasStatus_t multiply(float beta, const float* from, size_t workspace_bytes) {
    const float alpha = 2;
    return cublasLtMatmul(handle, &product, &alpha, from, &a_layout, b, &b_layout, &beta, d, &d_layout, d, &d_layout,
                          &chosen.algo, workspace, workspace_bytes, stream);
  }

  cudaStream_t stream{};
  cublasLtHandle_t handle{};
  cublasLtMatmulDescOpaque_t product{};
  cublasLtMatrixLayoutOpaque_t a_layout{}, b_layout{}, d_layout{};
  cublasLtMatmulHeuristicResult_t chosen{};
  float *a = nullptr, *b = nullptr, *d = nullptr, *workspace = nullptr;
};

TEST_F(BlasLt, MultipliesTransposesAndStridesLikeAPlainLoop) {
  for (const Product& p : {Product{}, Product{.a_transposed = true}, Product{.b_transposed = true},
                           Product{.a_leading = 7, .b_leading = 6, .d_leading = 11, .a_transposed = true},
                           Product{.m = 9, .n = 6, .k = 300, .b_transposed = true}}) {
    describe(p);
    ASSERT_EQ(choose(), CUBLAS_STATUS_SUCCESS);
    const std::vector<float> before(d, d + room);
    ASSERT_EQ(multiply(3, a, room * sizeof(float)), CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    for (int64_t j = 0; j < p.n; ++j)
      for (int64_t i = 0; i < p.m; ++i) {
        float sum = 0;
        for (int64_t t = 0; t < p.k; ++t)
          sum += a[p.a_transposed ? t + i * p.a_step() : i + t * p.a_step()] *
                 b[p.b_transposed ? j + t * p.b_step() : t + j * p.b_step()];
        const int64_t at = i + j * p.d_step();
        ASSERT_EQ(d[at], 2 * sum + 3 * before[at]) << i << ", " << j << " of k " << p.k;
      }
    const int64_t end = (p.n - 1) * p.d_step() + p.m;
    EXPECT_EQ(d[end], before[end]);
  }
}

TEST_F(BlasLt, RefusesInconsistentDescriptors) {
  describe({.a_leading = 2});
  EXPECT_EQ(choose(), CUBLAS_STATUS_INVALID_VALUE);
  describe({});
  EXPECT_EQ(cublasLtMatrixLayoutInit(&b_layout, CUDA_R_32F, 6, 5, 6), CUBLAS_STATUS_SUCCESS);  // six rows, but k is 4
  EXPECT_EQ(choose(), CUBLAS_STATUS_INVALID_VALUE);
  describe({});
  EXPECT_EQ(cublasLtMatrixLayoutInit(&b_layout, CUDA_R_16BF, 4, 5, 4), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(choose(), CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST_F(BlasLt, RefusesAddressesBelowThePromisedAlignment) {
  describe({});
  ASSERT_EQ(choose(), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(multiply(0, a + 1, room), CUBLAS_STATUS_INVALID_VALUE);
}

TEST_F(BlasLt, RefusesLessWorkspaceThanItRequested) {
  describe({.m = 9, .n = 6, .k = 300});
  ASSERT_EQ(choose(), CUBLAS_STATUS_SUCCESS);
  ASSERT_GT(chosen.workspaceSize, 0u);
  EXPECT_EQ(multiply(0, a, chosen.workspaceSize - 1), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(multiply(0, a, chosen.workspaceSize), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(choose(0), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(chosen.workspaceSize, 0u);
}

// A product fails if another stream is using its workspace, even if both streams write the same values.
TEST_F(BlasLt, WorkspaceInUseBreaksTheOtherStream) {
  describe({.m = 9, .n = 6, .k = 300});
  ASSERT_EQ(choose(), CUBLAS_STATUS_SUCCESS);
  const WorkspaceInUse another(workspace, 64);
  ASSERT_EQ(multiply(0, a, chosen.workspaceSize), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorLaunchFailure);
}

// The first product with an algorithm loads a kernel if kernels are not loaded early (CUDA_MODULE_LOADING=EAGER).
TEST_F(BlasLt, FirstUseOfAnAlgorithmWaitsForTheDevice) {
  describe({});
  ASSERT_EQ(choose(), CUBLAS_STATUS_SUCCESS);
  std::promise<void> gate;
  enqueue(stream, [f = gate.get_future().share()] { f.wait(); });
  auto first = std::async(std::launch::async, [&] {
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    EXPECT_EQ(multiply(0, a, room), CUBLAS_STATUS_SUCCESS);
  });
  // A product that does not wait may still be late on a busy machine.
  const std::chrono::milliseconds patience(settings().loads_early ? 60'000 : 50);
  EXPECT_EQ(first.wait_for(patience) == std::future_status::timeout, !settings().loads_early);
  gate.set_value();
  first.get();
  std::promise<void> other_gate;
  enqueue(stream, [f = other_gate.get_future().share()] { f.wait(); });
  EXPECT_EQ(multiply(0, a, room), CUBLAS_STATUS_SUCCESS);  // hangs if the product waits for the device
  other_gate.set_value();
}

TEST_F(BlasLt, HostMemoryBreaksTheStream) {
  describe({});
  ASSERT_EQ(choose(), CUBLAS_STATUS_SUCCESS);
  alignas(256) static float here[64];
  ASSERT_EQ(multiply(0, here, 0), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorLaunchFailure);
}

}  // namespace
}  // namespace hexad::cuda_double
