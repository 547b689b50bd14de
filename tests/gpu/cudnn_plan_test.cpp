// Plans of cuDNN's attention for an H100: the calls that have a plan, and the workspace of each plan. No H100 is
// needed. Compiling a plan's kernels needs a driver, which a test double replaces.
#include "framework/kernels/cuda/attention/cudnn_plan.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "framework/base/error.h"

namespace hexad::kernels::cuda {
namespace {

/// Properties of an H100 with 80 GB of HBM3, in cuDNN's format.
const DescribedCard h100{.properties = R"({
  "deviceName": "NVIDIA H100 80GB HBM3", "deviceVer": 900, "driverVer": 13000, "cudaDeviceId": 0, "pciDeviceId": 0,
  "multiProcessorCount": 132, "warpSize": 32, "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
  "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "maxCtasPerSM": 32, "regsPerBlock": 65536, "maxRegistersPerSM": 65536,
  "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024,
  "totalGlobalMem": 85029158912, "l2CacheSize": 52428800, "smClockRateKHz": 1980000, "memClockRateKHz": 2619000,
  "isTccDriver": 0, "supportCoopLaunch": 1})",
                         .generation = 90};

constexpr int64_t megabyte = 1 << 20;

/// Returns a problem of four sequences of 4096 positions. q, k and v are columns of one product's result if `fused` is
/// true. Otherwise, they are separate results.
AttentionProblem problem(int64_t heads, int64_t key_heads, int64_t size, bool fused = false) {
  const int64_t beside = (heads + 2 * key_heads) * size;
  const HeadStrides queries{heads * size, size}, keys{key_heads * size, size};
  const HeadStrides given_queries = fused ? HeadStrides{beside, size} : queries,
                    given_keys = fused ? HeadStrides{beside, size} : keys;
  return {.sequences = 4,
          .positions = 4096,
          .heads = heads,
          .key_heads = key_heads,
          .size = size,
          .scale = 0.125f,
          .q = given_queries,
          .k = given_keys,
          .v = given_keys,
          .out = queries,
          .dout = queries,
          .dq = queries,
          .dk = keys,
          .dv = keys};
}

AttentionProblem backward(AttentionProblem p, bool deterministic = false) {
  p.backward = true, p.deterministic = deterministic;
  return p;
}
AttentionProblem documents(AttentionProblem p, int64_t count) {
  p.documents = count;
  return p;
}

class CudnnPlans : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_NE(dlopen(HEXAD_DRIVER_DOUBLE, RTLD_NOW | RTLD_GLOBAL), nullptr) << dlerror(); }
  /// Expects that a plan exists and needs at most `megabytes` megabytes of workspace, of 2^20 bytes each.
  static void expect_plan(const AttentionProblem& p, int64_t megabytes) {
    const CudnnPlan plan(p, h100);
    EXPECT_EQ(plan.refused(), "");
    EXPECT_LE(plan.workspace(), megabytes * megabyte);
  }
  static std::string refusal(const AttentionProblem& p) { return CudnnPlan(p, h100).refused(); }
};

TEST_F(CudnnPlans, SupportWholeSequences) {
  for (bool causal : {false, true})
    for (int64_t size : {64, 128})
      for (int64_t key_heads : {16, 4, 1}) {
        SCOPED_TRACE(base::cat(causal ? "causal, " : "", key_heads, " key heads of ", size));
        AttentionProblem p = problem(16, key_heads, size, key_heads == 4);
        p.causal = causal;
        expect_plan(p, 1);
        expect_plan(backward(p), 4 * size);
      }
}

TEST_F(CudnnPlans, SupportOtherSizesOfHeads) {
  for (int64_t size : {8, 72, 256}) {
    SCOPED_TRACE(size);
    expect_plan(problem(4, 2, size), 1);
    expect_plan(backward(problem(4, 2, size)), 1024);
  }
}

TEST_F(CudnnPlans, SupportOtherNumbersOfPositions) {
  for (int64_t positions : {2, 200, 4095}) {
    SCOPED_TRACE(positions);
    AttentionProblem p = problem(4, 2, 64);
    p.positions = positions;
    expect_plan(p, 1);
    expect_plan(backward(p), 256);
  }
}

TEST_F(CudnnPlans, SupportDocuments) {
  for (bool causal : {false, true})
    for (int64_t size : {64, 128})
      for (int64_t key_heads : {16, 4}) {
        const int64_t count = key_heads == 4 ? 64 : 5;
        SCOPED_TRACE(base::cat(causal ? "causal, " : "", count, " documents, ", key_heads, " key heads of ", size));
        AttentionProblem p = documents(problem(16, key_heads, size, key_heads == 4), count);
        p.causal = causal;
        expect_plan(p, 1);
        expect_plan(backward(p), 8 * size);  // workspace for the tokens, not for one whole sequence per document
      }
}

TEST_F(CudnnPlans, SupportManyDocuments) {
  expect_plan(documents(problem(16, 4, 128), 1024), 1);
  expect_plan(backward(documents(problem(16, 4, 128), 1024)), 1024);
}

// The workspace grows with the square of the number of positions.
TEST_F(CudnnPlans, SupportDeterministicBackwardIfItsWorkspaceIsSmall) {
  expect_plan(backward(problem(16, 4, 128), true), 2200);
  expect_plan(backward(documents(problem(16, 4, 128), 4), true), 2400);
  EXPECT_NE(refusal(backward(documents(problem(16, 4, 128), 64), true)).find("bytes; expected at most 4294967296"),
            std::string::npos);
  AttentionProblem longer = problem(16, 4, 128);
  longer.positions = 8192;
  EXPECT_NE(refusal(backward(longer, true)).find("bytes; expected at most 4294967296"), std::string::npos);
}

TEST_F(CudnnPlans, RefuseUnsupportedHeads) {
  EXPECT_NE(refusal(problem(4, 2, 60)), "");
  EXPECT_NE(refusal(problem(4, 3, 64)), "");
  EXPECT_NE(refusal(backward(problem(4, 2, 264))), "");
  EXPECT_NE(refusal(backward(documents(problem(4, 2, 264), 5))), "");
}

TEST_F(CudnnPlans, NeedADescriptionOfTheCard) {
  EXPECT_THROW(CudnnPlan(problem(4, 2, 64), DescribedCard{.properties = "{}", .generation = 90}), std::logic_error);
}

}  // namespace
}  // namespace hexad::kernels::cuda
