// Behaviour of CUDA's runtime on which the backend relies, and which the CUDA test double must therefore have.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <stdexcept>
#include <thread>
#include <vector>

#include "framework/kernels/cuda/attention/cudnn_plan.h"
#include "tests/support/cuda_double/device.h"
#include "tests/support/cuda_double/host_waits.h"
#include "tests/support/cuda_double/memory.h"
#include "tests/support/cuda_double/stream.h"

namespace hexad::cuda_double {
namespace {

struct CudaDouble : ::testing::Test {
  CudaDouble() {
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    for (cudaStream_t* s : {&first, &second})
      EXPECT_EQ(cudaStreamCreateWithPriority(s, cudaStreamNonBlocking, 0), cudaSuccess);
    EXPECT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  }
  ~CudaDouble() override {
    for (cudaStream_t s : {first, second}) EXPECT_EQ(cudaStreamDestroy(s), cudaSuccess);
    EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
    mend_devices();
    static_cast<void>(cudaGetLastError());
  }
  // Appends work that keeps `stream` busy until release() is called.
  void block(cudaStream_t stream) {
    enqueue(stream, [f = gate.get_future().share()] { f.wait(); });
  }
  void release() { gate.set_value(); }

  cudaStream_t first{}, second{};
  cudaEvent_t event{};
  std::promise<void> gate;
};

TEST_F(CudaDouble, EventIsPassedWhenItsStreamReachesIt) {
  block(first);
  EXPECT_EQ(cudaEventRecord(event, first), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  EXPECT_EQ(cudaGetLastError(), cudaErrorNotReady);
  release();
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
}

TEST_F(CudaDouble, StreamsWaitForEarlierRecordsOnly) {
  EXPECT_EQ(cudaStreamWaitEvent(second, event, 0), cudaSuccess);  // the event was not recorded
  EXPECT_EQ(cudaStreamSynchronize(second), cudaSuccess);
  block(first);
  EXPECT_EQ(cudaEventRecord(event, first), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(second, event, 0), cudaSuccess);
  std::atomic<bool> ran = false;
  enqueue(second, [&] { ran = true; });
  EXPECT_EQ(cudaStreamQuery(second), cudaErrorNotReady);
  EXPECT_FALSE(ran);
  release();
  EXPECT_EQ(cudaStreamSynchronize(second), cudaSuccess);
  EXPECT_TRUE(ran);
}

TEST_F(CudaDouble, PageableMemoryMayBeReusedAfterACopyReturns) {
  void* there = nullptr;
  ASSERT_EQ(cudaMalloc(&there, sizeof(int)), cudaSuccess);
  block(first);
  int from = 7, to = 0;
  EXPECT_EQ(cudaMemcpyAsync(there, &from, sizeof from, cudaMemcpyDefault, first), cudaSuccess);
  from = 8;
  release();
  EXPECT_EQ(cudaMemcpyAsync(&to, there, sizeof to, cudaMemcpyDefault, first), cudaSuccess);
  EXPECT_EQ(to, 7);
  EXPECT_EQ(cudaFree(there), cudaSuccess);
}

TEST_F(CudaDouble, CopiesFromPinnedMemoryRunLater) {
  void *there = nullptr, *pinned = nullptr;
  ASSERT_EQ(cudaMalloc(&there, sizeof(int)), cudaSuccess);
  ASSERT_EQ(cudaHostAlloc(&pinned, sizeof(int), cudaHostAllocDefault), cudaSuccess);
  block(first);
  *static_cast<int*>(pinned) = 7;
  EXPECT_EQ(cudaMemcpyAsync(there, pinned, sizeof(int), cudaMemcpyDefault, first), cudaSuccess);
  *static_cast<int*>(pinned) = 8;  // too early: the copy has not run yet
  release();
  int to = 0;
  EXPECT_EQ(cudaMemcpyAsync(&to, there, sizeof to, cudaMemcpyDefault, first), cudaSuccess);
  EXPECT_EQ(to, 8);
  EXPECT_EQ(cudaFree(there), cudaSuccess);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
}

TEST_F(CudaDouble, CopiesPastTheEndOfABlockAreRefused) {
  void* there = nullptr;
  ASSERT_EQ(cudaMalloc(&there, 16), cudaSuccess);
  char host[32];
  EXPECT_EQ(cudaMemcpyAsync(there, host, 32, cudaMemcpyDefault, first), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemsetAsync(there, 0, 17, first), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(there), cudaSuccess);
  EXPECT_EQ(cudaFree(host), cudaErrorInvalidValue);
}

TEST_F(CudaDouble, AllocationsBeyondTheCapacityFail) {
  const int64_t before = capacity();
  set_capacity(in_use(0) + 1000);
  void *one = nullptr, *more = nullptr;
  EXPECT_EQ(cudaMalloc(&one, 600), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&more, 600), cudaErrorMemoryAllocation);
  EXPECT_EQ(more, nullptr);
  EXPECT_EQ(cudaFree(one), cudaSuccess);
  set_capacity(before);
}

TEST_F(CudaDouble, AllocationsAreCountedByFunctionAndBytes) {
  take_allocations();
  void *there = nullptr, *pinned = nullptr;
  EXPECT_EQ(cudaMalloc(&there, 600), cudaSuccess);
  EXPECT_EQ(cudaHostAlloc(&pinned, 4096, cudaHostAllocDefault), cudaSuccess);
  {
    const PinnedCapacity none(0);
    void* refused = nullptr;
    EXPECT_EQ(cudaHostAlloc(&refused, 8192, cudaHostAllocDefault), cudaErrorMemoryAllocation);
  }
  EXPECT_EQ(take_allocations(), (std::map<std::string, int64_t>{{"cudaHostAlloc 4096", 1}, {"cudaMalloc 600", 1}}));
  EXPECT_EQ(cudaFree(there), cudaSuccess);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
}

TEST_F(CudaDouble, FailedWorkBreaksItsDevice) {
  enqueue(first, [] { throw std::runtime_error("planted by a test"); });
  EXPECT_EQ(cudaStreamSynchronize(first), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaStreamSynchronize(second), cudaErrorLaunchFailure);
  bool ran = false;
  enqueue(second, [&] { ran = true; });
  EXPECT_EQ(cudaStreamSynchronize(second), cudaErrorLaunchFailure);
  EXPECT_FALSE(ran);
}

TEST_F(CudaDouble, WaitsOfTheHostAreCountedByName) {
  using Waits = std::map<std::string, int64_t>;
  take_host_waits();
  EXPECT_EQ(cudaStreamWaitEvent(second, event, 0), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  EXPECT_EQ(take_host_waits(), Waits{});
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
  name_host_waits_by([] { return std::string("a read"); });
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  name_host_waits_by(nullptr);
  EXPECT_EQ(cudaStreamSynchronize(first), cudaSuccess);
  EXPECT_EQ(take_host_waits(),
            (Waits{{"a read", 2}, {"unnamed cudaEventSynchronize", 1}, {"unnamed cudaStreamSynchronize", 1}}));
}

TEST_F(CudaDouble, CallsOfThreadsWithoutADeviceFail) {
  std::thread([&] {
    void* memory = nullptr;
    EXPECT_EQ(cudaEventRecord(event, first), cudaErrorDeviceUninitialized);
    EXPECT_EQ(cudaGetLastError(), cudaErrorDeviceUninitialized);
    EXPECT_EQ(cudaEventSynchronize(event), cudaErrorDeviceUninitialized);
    EXPECT_EQ(cudaHostAlloc(&memory, 1, cudaHostAllocDefault), cudaErrorDeviceUninitialized);
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    EXPECT_EQ(cudaEventRecord(event, first), cudaSuccess);
  }).join();
  EXPECT_EQ(take_calls_without_device(), 3);
}

// Returns a function of the driver.
template <class F>
F* driver_function(const char* name) {
  void* found = nullptr;
  EXPECT_EQ(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, nullptr), cudaSuccess);
  return reinterpret_cast<F*>(found);
}

TEST_F(CudaDouble, MappingsOfThreadsWithoutADeviceFail) {
  constexpr size_t page = size_t{2} << 20;
  std::thread([&] {
    CUdeviceptr where = 0;
    CUmemGenericAllocationHandle pages = 0;
    CUmemAllocationProp memory{};
    memory.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    memory.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    const CUmemAccessDesc access{.location = memory.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    const auto expect_all = [&](CUresult result) {
      EXPECT_EQ(driver_function<decltype(cuMemAddressReserve)>("cuMemAddressReserve")(&where, page, 0, 0, 0), result);
      EXPECT_EQ(driver_function<decltype(cuMemCreate)>("cuMemCreate")(&pages, page, &memory, 0), result);
      EXPECT_EQ(driver_function<decltype(cuMemMap)>("cuMemMap")(where, page, 0, pages, 0), result);
      EXPECT_EQ(driver_function<decltype(cuMemSetAccess)>("cuMemSetAccess")(where, page, &access, 1), result);
      EXPECT_EQ(driver_function<decltype(cuMemUnmap)>("cuMemUnmap")(where, page), result);
      EXPECT_EQ(driver_function<decltype(cuMemRelease)>("cuMemRelease")(pages), result);
      EXPECT_EQ(driver_function<decltype(cuMemAddressFree)>("cuMemAddressFree")(where, page), result);
    };
    expect_all(CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(take_calls_without_device(), 7);
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    expect_all(CUDA_SUCCESS);
  }).join();
}

// Runs `call` on a thread of device 0 while a stream is busy. Returns true if `call` waits for this stream.
template <class F>
bool waits_for_the_device(const F& call) {
  using namespace std::chrono_literals;
  cudaStream_t busy = nullptr;
  EXPECT_EQ(cudaStreamCreateWithPriority(&busy, cudaStreamNonBlocking, 0), cudaSuccess);
  std::promise<void> gate;
  enqueue(busy, [f = gate.get_future().share()] { f.wait(); });
  auto done = std::async(std::launch::async, [&] {
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    EXPECT_EQ(call(), cudaSuccess);
  });
  const bool waited = done.wait_for(50ms) == std::future_status::timeout;
  gate.set_value();
  done.get();
  EXPECT_EQ(cudaStreamDestroy(busy), cudaSuccess);
  return waited;
}

TEST_F(CudaDouble, AllocationsAndFreesWaitForTheDevice) {
  void *there = nullptr, *pinned = nullptr;
  EXPECT_TRUE(waits_for_the_device([&] { return cudaMalloc(&there, 16); }));
  EXPECT_TRUE(waits_for_the_device([&] { return cudaHostAlloc(&pinned, 16, cudaHostAllocDefault); }));
  EXPECT_FALSE(waits_for_the_device([&] { return cudaMemsetAsync(there, 0, 16, first); }));
  EXPECT_TRUE(waits_for_the_device([&] { return cudaFree(there); }));
  EXPECT_TRUE(waits_for_the_device([&] { return cudaFreeHost(pinned); }));
}

// The double refuses the first plan, because it has no plans for calls without documents. A refused plan also waits.
TEST_F(CudaDouble, MakingAPlanOfCudnnWaitsForTheDevice) {
  using kernels::cuda::CudnnPlan;
  const kernels::cuda::CudnnHandle handle;
  for (const int64_t documents : {0, 2}) {
    kernels::cuda::AttentionProblem problem;
    problem.documents = documents;
    EXPECT_TRUE(waits_for_the_device([&] {
      EXPECT_EQ(CudnnPlan(problem, handle).refused().empty(), documents > 0);
      return cudaGetLastError();
    }));
  }
}

// There are as many other streams as connections, so one of them shares the connection of the first stream.
TEST_F(CudaDouble, StreamWaitsForBlockedWorkOfItsConnection) {
  const int count = settings().connections;
  std::vector<cudaStream_t> others(count);
  for (cudaStream_t& s : others) EXPECT_EQ(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, 0), cudaSuccess);
  std::atomic<int> ran = 0;
  const auto launch_on_others = [&] {
    ran = 0;
    for (cudaStream_t s : others) enqueue(s, [&] { ++ran; });
  };
  const auto synchronize_others = [&] {
    for (cudaStream_t s : others) EXPECT_EQ(cudaStreamSynchronize(s), cudaSuccess);
  };
  block(first);
  launch_on_others();
  synchronize_others();  // hangs if a stream waits for work that has begun
  EXPECT_EQ(ran, count);

  enqueue(first, [] {});  // cannot start before the blocked work ends, so it occupies the connection
  launch_on_others();
  while (ran < count - 1) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(ran, count - 1);
  release();
  synchronize_others();
  EXPECT_EQ(ran, count);
  for (cudaStream_t s : others) EXPECT_EQ(cudaStreamDestroy(s), cudaSuccess);
}

TEST_F(CudaDouble, ThereIsNoDefaultStream) {
  EXPECT_EQ(cudaEventRecord(event, nullptr), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaErrorInvalidResourceHandle);
}

}  // namespace
}  // namespace hexad::cuda_double
