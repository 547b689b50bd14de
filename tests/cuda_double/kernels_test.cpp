// Kernels on the CUDA test double, which runs threads as fibers. Threads synchronise as on a card, and errors that
// would occur on a card are found.
#include <cuda_fp8.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <numeric>
#include <set>

#include "framework/base/fp8.h"
#include "framework/kernels/cuda/launcher.cuh"
#include "tests/support/cuda_double/device.h"
#include "tests/support/cuda_double/kernels/block.h"
#include "tests/support/cuda_double/stream.h"

namespace hexad::cuda_double {
namespace {

constexpr unsigned whole_warp = 0xffffffffu;

Grid grid(unsigned blocks, unsigned threads, std::optional<uint64_t> order = {}, size_t shared = 0) {
  return {.kernel = "a kernel", .blocks = dim3(blocks), .threads = dim3(threads), .shared = shared, .order = order};
}

/// Returns the text of the error that run_grid() throws; "nothing" if run_grid() throws none.
std::string error_of(const Grid& g, const std::function<void()>& thread) {
  try {
    run_grid(g, thread);
  } catch (const std::runtime_error& e) {
    return e.what();
  }
  return "nothing";
}

::testing::AssertionResult has(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << '"' << text << "\" has no \"" << part << '"';
}

__global__ void reverse(int* values, bool synchronised) {
  __shared__ int all[1024];
  all[threadIdx.x] = values[threadIdx.x];
  if (synchronised) __syncthreads();
  values[threadIdx.x] = all[blockDim.x - 1 - threadIdx.x];
}

/// Returns the number of runs, out of four, that correctly reverse 256 values. The order of threads differs between
/// runs. The values differ, too, because shared memory keeps the values of the previous run, as on a card.
int runs_that_reverse(bool synchronised) {
  int right = 0;
  for (uint64_t order = 0; order < 4; ++order) {
    std::vector<int> values(256), expected(256);
    std::iota(values.begin(), values.end(), 1000 * static_cast<int>(order));
    std::reverse_copy(values.begin(), values.end(), expected.begin());
    run_grid(grid(1, 256, order), [&] { reverse(values.data(), synchronised); });
    right += values == expected;
  }
  return right;
}

TEST(CudaDoubleKernels, MissingBarrierGivesWrongResults) {
  EXPECT_EQ(runs_that_reverse(true), 4);
  EXPECT_EQ(runs_that_reverse(false), 0);
}

TEST(CudaDoubleKernels, BarrierMissedByAThreadIsNamed) {
  const std::string error = error_of(grid(3, 64, 7), [] {
    if (blockIdx.x == 1 && threadIdx.x == 5) return;
    __syncthreads();
  });
  EXPECT_TRUE(has(error, "[a kernel] block (1, 0, 0)")) << error;
  EXPECT_TRUE(has(error, "waits at __syncthreads (")) << error;
  EXPECT_TRUE(has(error, "kernels_test.cpp")) << error;
  EXPECT_TRUE(has(error, "thread (5, 0, 0) has ended")) << error;
}

TEST(CudaDoubleKernels, ThreadsWaitingAtDifferentBarriersAreNamed) {
  const std::string barriers = error_of(grid(1, 64), [] {
    if (threadIdx.x < 32) {
      __syncthreads();
    } else {
      __syncthreads_or(1);
    }
  });
  EXPECT_TRUE(has(barriers, "thread (32, 0, 0) reaches __syncthreads_or while other threads wait at __syncthreads"));
  const std::string lanes = error_of(grid(1, 32), [] {
    if (threadIdx.x == 3) {
      __syncthreads();
    } else {
      __syncwarp();
    }
  });
  EXPECT_TRUE(has(lanes, "waits at __syncwarp"));
  EXPECT_TRUE(has(lanes, "thread (3, 0, 0) waits at __syncthreads"));
}

TEST(CudaDoubleKernels, LanesOutsideTheMaskAreNamed) {
  EXPECT_TRUE(has(error_of(grid(1, 32), [] { __syncwarp(1u); }),
                  "calls __syncwarp with a mask that does not include the calling lane"));
  EXPECT_TRUE(has(error_of(grid(1, 16), [] { __syncwarp(); }), "a mask that includes lanes outside of the block"));
  EXPECT_TRUE(has(error_of(grid(1, 32),
                           [] {
                             if (threadIdx.x < 16) static_cast<void>(__shfl_sync(0xffffu, 1, 20));
                           }),
                  "reads the value of lane 20, which is not in the mask"));
}

TEST(CudaDoubleKernels, RaceOfBlocksChangesResultsInAnotherOrder) {
  std::set<unsigned> last;
  for (uint64_t order = 0; order < 8; ++order) {
    unsigned written = 0;
    run_grid(grid(16, 1, order), [&] { written = blockIdx.x; });
    last.insert(written);
  }
  EXPECT_GT(last.size(), 1u);
}

TEST(CudaDoubleKernels, EveryThreadOfEveryBlockRunsOnce) {
  for (const std::optional<uint64_t> order : {std::optional<uint64_t>(), std::optional<uint64_t>(3)}) {
    std::vector<int> runs(3 * 5 * 70);
    run_grid({.kernel = "", .blocks = dim3(3, 5), .threads = dim3(70), .order = order},
             [&] { ++runs[(blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x]; });
    EXPECT_EQ(runs, std::vector<int>(runs.size(), 1));
  }
}

TEST(CudaDoubleKernels, WarpsExchangeTheValuesOfTheirLanes) {
  std::vector<int> before(64), after(64), swapped(64);
  std::vector<unsigned> votes(64), same(64);
  std::vector<int> least(64);
  run_grid(grid(1, 64, 11), [&] {
    const int i = static_cast<int>(threadIdx.x);
    before[threadIdx.x] = __shfl_up_sync(whole_warp, 10 * i, 1);
    after[threadIdx.x] = __shfl_sync(whole_warp, 10 * i, 31);
    swapped[threadIdx.x] = __shfl_xor_sync(whole_warp, i, 2);
    votes[threadIdx.x] = __ballot_sync(whole_warp, i % 3 == 0);
    same[threadIdx.x] = __match_any_sync(whole_warp, i % 2);
    least[threadIdx.x] = __reduce_min_sync(whole_warp, i) + __reduce_max_sync(whole_warp, -i);
  });
  for (int i = 0; i < 64; ++i) {
    const size_t at = i;
    const int first = i / 32 * 32;
    EXPECT_EQ(before[at], i == first ? 10 * i : 10 * (i - 1));
    EXPECT_EQ(after[at], 10 * (first + 31));
    EXPECT_EQ(swapped[at], i ^ 2);
    EXPECT_EQ(votes[at], first == 0 ? 0x49249249u : 0x92492492u);
    EXPECT_EQ(same[at], i % 2 ? 0xaaaaaaaau : 0x55555555u);
    EXPECT_EQ(least[at], 0);
  }
}

TEST(CudaDoubleKernels, EachBarrierHasItsOwnVote) {
  std::vector<int> votes(96);
  run_grid(grid(1, 96, 5), [&] {
    const int yes = __syncthreads_or(threadIdx.x == 77), no = __syncthreads_or(0);
    votes[threadIdx.x] = 2 * yes + no;
  });
  EXPECT_EQ(votes, std::vector<int>(96, 2));
}

TEST(CudaDoubleKernels, AtomicsLoseNoUpdate) {
  unsigned sum = 0;
  run_grid(grid(4, 100, 1), [&] { atomicAdd(&sum, threadIdx.x); });
  EXPECT_EQ(sum, 4u * 4950);
}

// A copy is complete after the wait for it, and not before.
TEST(CudaDoubleKernels, CopiesArriveAtTheWait) {
  const std::vector<float> from{1, 2, 3, 4};
  std::vector<float> early(2), late(2);
  run_grid(grid(1, 1, {}, 8), [&] {
    float* const memory = &kernels::cuda::dynamic_shared<float>();
    copy_later(memory, from.data() + 2, 8, true);
    std::copy_n(memory, 2, early.begin());
    finish_copies();
    std::copy_n(memory, 2, late.begin());
  });
  EXPECT_TRUE(std::isnan(early[0]));
  EXPECT_EQ(late, (std::vector<float>{3, 4}));
  EXPECT_TRUE(has(error_of(grid(1, 1), [&] { copy_later(nullptr, from.data() + 1, 16, true); }),
                  "an address that is not a multiple of 16"));
}

// NVIDIA's conversion, which kernels call, gives the same codes as the CPU's conversion.
TEST(CudaDoubleKernels, Fp8CodesEqualTheCpus) {
  for (int i = -2000; i <= 2000; ++i) {
    const float x = static_cast<float>(i) * 0.2237f;
    EXPECT_EQ(__nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3), base::e4m3(x).bits) << x;
  }
}

#ifdef __SANITIZE_ADDRESS__
__global__ void read_past_the_end(int* out) {
  __shared__ int all[32];
  all[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = all[threadIdx.x + 1];
}

TEST(CudaDoubleKernels, ReadsBeyondSharedMemoryAreFound) {
  std::vector<int> out(32);
  EXPECT_DEATH(run_grid(grid(1, 32), [&] { read_past_the_end(out.data()); }), "global-buffer-overflow");
  EXPECT_DEATH(
      run_grid(grid(1, 32, {}, 64), [&] { out[threadIdx.x] = (&kernels::cuda::dynamic_shared<int>())[threadIdx.x]; }),
      "heap-buffer-overflow");
}
#endif

struct Launches : ::testing::Test {
  Launches() {
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    EXPECT_EQ(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0), cudaSuccess);
  }
  ~Launches() override {
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    mend_devices();
    static_cast<void>(cudaGetLastError());
  }
  cudaError_t error_of_launch(dim3 blocks, dim3 threads, size_t shared = 0) {
    kernels::cuda::start_kernel(
        "a kernel", +[](int) {}, blocks, threads, shared, stream, 0);
    return cudaGetLastError();
  }
  cudaStream_t stream{};
};

TEST_F(Launches, AreRefusedBeyondTheLimitsOfACard) {
  EXPECT_EQ(error_of_launch(dim3(1), dim3(1024)), cudaSuccess);
  EXPECT_EQ(error_of_launch(dim3(1), dim3(1025)), cudaErrorInvalidConfiguration);
  EXPECT_EQ(error_of_launch(dim3(0), dim3(32)), cudaErrorInvalidConfiguration);
  EXPECT_EQ(error_of_launch(dim3(1, 65536), dim3(32)), cudaErrorInvalidConfiguration);
  EXPECT_EQ(error_of_launch(dim3(1, 65535), dim3(1)), cudaSuccess);
}

TEST_F(Launches, MoreSharedMemoryThanTheDefaultMustBeRequested) {
  EXPECT_EQ(error_of_launch(dim3(1), dim3(32), 48 << 10), cudaSuccess);
  EXPECT_EQ(error_of_launch(dim3(1), dim3(32), (48 << 10) + 1), cudaErrorInvalidValue);
  void (*const kernel)(int) = [](int) {};
  EXPECT_EQ(kernels::cuda::allow_shared(kernel, 64 << 10), cudaSuccess);
  kernels::cuda::start_kernel("a kernel", kernel, dim3(1), dim3(32), 64 << 10, stream, 0);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(kernels::cuda::allow_shared(kernel, 228 << 10), cudaErrorInvalidValue);
}

TEST_F(Launches, SharedMemoryIsLimitedByTheCard) {
  void (*const kernel)(int) = [](int) {};
  EXPECT_EQ(kernels::cuda::allow_shared(kernel, 128 << 10), cudaSuccess);
  const SharedMemoryLimit limit(99 << 10);
  EXPECT_EQ(kernels::cuda::allow_shared(kernel, (99 << 10) + 1), cudaErrorInvalidValue);
  kernels::cuda::start_kernel("a kernel", kernel, dim3(1), dim3(32), 128 << 10, stream, 0);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
}

TEST_F(Launches, AreRefusedInStreamsOfOtherDevices) {
  EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(error_of_launch(dim3(1), dim3(1)), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
}

// The first launch loads the kernel if kernels are not loaded early (CUDA_MODULE_LOADING=EAGER).
TEST_F(Launches, FirstLaunchOfAKernelWaitsForTheDevice) {
  std::promise<void> gate;
  enqueue(stream, [f = gate.get_future().share()] { f.wait(); });
  const auto launch = [&] {
    return std::async(std::launch::async, [&] {
      EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
      kernels::cuda::start_kernel(
          "a kernel", +[](int, int) {}, dim3(1), dim3(1), 0, stream, 0, 0);
      EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    });
  };
  auto first = launch();
  EXPECT_EQ(first.wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout, !settings().loads_early);
  gate.set_value();
  first.get();
  std::promise<void> other_gate;
  enqueue(stream, [f = other_gate.get_future().share()] { f.wait(); });
  launch().get();  // hangs if the launch waits for the device
  other_gate.set_value();
}

TEST_F(Launches, AreRefusedForHostMemory) {
  int here = 0;
  void (*const kernel)(int*) = [](int* p) { *p = 1; };
  EXPECT_THROW(kernels::cuda::start_kernel("a kernel", kernel, dim3(1), dim3(1), 0, stream, &here), std::logic_error);
}

TEST_F(Launches, FailedKernelBreaksItsDevice) {
  kernels::cuda::start_kernel(
      "a kernel",
      +[](int) {
        if (threadIdx.x == 0) __syncthreads();
      },
      dim3(1), dim3(32), 0, stream, 0);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorLaunchFailure);
}

}  // namespace
}  // namespace hexad::cuda_double
