// Tests that the NCCL test double behaves like NCCL, as far as process groups rely on NCCL's behaviour. Also tests
// mistakes that only the double reports.
#include "tests/support/cuda_double/nccl.h"

#include <gtest/gtest.h>

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <stdexcept>
#include <thread>
#include <vector>

#include "framework/base/dtype.h"
#include "framework/device/cuda/whole_blocks.h"
#include "tests/support/cuda_double/device.h"
#include "tests/support/cuda_double/nccl_windows.h"
#include "tests/support/cuda_double/stream.h"

namespace hexad::cuda_double {
namespace {

using namespace std::chrono_literals;

void copy(void* to, const void* from, size_t bytes, cudaStream_t stream) {
  EXPECT_EQ(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
}

// A rank with its device, a stream and device memory.
struct Rank {
  int rank, ranks;
  ncclUniqueId id;
  cudaStream_t stream = nullptr;
  float* memory = nullptr;
  static constexpr int64_t floats = 4096;

  ncclComm_t make(ncclConfig_t config = NCCL_CONFIG_INITIALIZER) const {
    ncclComm_t comm = nullptr;
    EXPECT_EQ(ncclCommInitRankConfig(&comm, ranks, id, rank, &config), ncclSuccess) << ncclGetLastError(nullptr);
    return comm;
  }
  ncclComm_t split(ncclComm_t from, const char* name, int ctas = 4) const {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.minCTAs = 1, config.maxCTAs = ctas, config.commName = name;
    ncclComm_t made = nullptr;
    EXPECT_EQ(ncclCommSplit(from, 0, rank, &made, &config), ncclSuccess);
    return made;
  }
  void set(std::vector<float> values) const { copy(memory, values.data(), values.size() * sizeof(float), stream); }
  std::vector<float> get(size_t n) const {
    std::vector<float> values(n);
    copy(values.data(), memory, n * sizeof(float), stream);
    return values;
  }
  // True if the work on `which`, by default on the rank's stream, ends within the time `in`.
  bool ends(std::chrono::milliseconds in, cudaStream_t which = nullptr) const {
    const auto until = std::chrono::steady_clock::now() + in;
    while (cudaStreamQuery(which ? which : stream) == cudaErrorNotReady) {
      if (std::chrono::steady_clock::now() > until) return false;
      std::this_thread::sleep_for(1ms);
    }
    return true;
  }
};

void on_ranks(int n, const std::function<void(Rank&)>& body) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  std::vector<std::thread> threads;
  for (int r = 0; r < n; ++r)
    threads.emplace_back([&, r] {
      Rank rank{.rank = r, .ranks = n, .id = id};
      ASSERT_EQ(cudaSetDevice(r), cudaSuccess);
      ASSERT_EQ(cudaStreamCreateWithPriority(&rank.stream, cudaStreamNonBlocking, 0), cudaSuccess);
      ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&rank.memory), Rank::floats * sizeof(float)), cudaSuccess);
      body(rank);
      EXPECT_EQ(cudaStreamDestroy(rank.stream), cudaSuccess);
      EXPECT_EQ(cudaFree(rank.memory), cudaSuccess);
    });
  for (std::thread& t : threads) t.join();
}

TEST(NcclDouble, HoldsAStreamUntilAllRanksHaveLaunched) {
  on_ranks(2, [](Rank& r) {
    const ncclComm_t comm = r.make();
    r.set({1, 2});
    const auto reduce = [&] {
      EXPECT_EQ(ncclAllReduce(r.memory, r.memory, 2, ncclFloat32, ncclSum, comm, r.stream), ncclSuccess);
    };
    reduce();
    EXPECT_TRUE(r.ends(10s));
    if (r.rank == 1) std::this_thread::sleep_for(100ms);
    reduce();
    EXPECT_TRUE(r.rank == 1 || !r.ends(20ms));
    EXPECT_EQ(r.get(2), (std::vector<float>{4, 8}));
    EXPECT_EQ(ncclCommFinalize(comm), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  });
  EXPECT_TRUE(nccl_communicators().empty());
}

TEST(NcclDouble, RoundsSumsOfBf16AtEveryStep) {
  on_ranks(3, [](Rank& r) {
    const ncclComm_t comm = r.make();
    const base::bf16 value(r.rank == 0 ? 256.0f : 1.0f);  // 256 + 1 is rounded to 256
    copy(r.memory, &value, sizeof value, r.stream);
    EXPECT_EQ(ncclAllReduce(r.memory, r.memory, 1, ncclBfloat16, ncclSum, comm, r.stream), ncclSuccess);
    base::bf16 sum;
    copy(&sum, r.memory, sizeof sum, r.stream);
    EXPECT_EQ(static_cast<float>(sum), 256.0f);
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  });
}

// Expects the streams of both ranks to hang after `launch`, and an abort to end the hang. The ranks connect first, so
// that only the streams hang, and not the host.
void expect_hang(const std::function<void(Rank&, ncclComm_t)>& launch) {
  on_ranks(2, [&](Rank& r) {
    const ncclComm_t comm = r.make();
    const auto reduce = [&] {
      EXPECT_EQ(ncclAllReduce(r.memory, r.memory, 1, ncclFloat32, ncclSum, comm, r.stream), ncclSuccess);
    };
    reduce();
    ncclGroupStart();
    ncclSend(r.memory, 1, ncclUint8, 1 - r.rank, comm, r.stream);
    ncclRecv(r.memory + 100, 1, ncclUint8, 1 - r.rank, comm, r.stream);
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
    EXPECT_TRUE(r.ends(10s));
    launch(r, comm);
    EXPECT_FALSE(r.ends(50ms));
    EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
    EXPECT_TRUE(r.ends(10s)) << "an abort ends the work on the stream";
    EXPECT_EQ(ncclAllReduce(r.memory, r.memory, 1, ncclFloat32, ncclSum, comm, r.stream), ncclInvalidUsage);
  });
}

TEST(NcclDouble, HangsIfCountsDiffer) {
  expect_hang([](Rank& r, ncclComm_t comm) {
    ncclAllReduce(r.memory, r.memory, 2 + r.rank, ncclFloat32, ncclSum, comm, r.stream);
  });
}

TEST(NcclDouble, HangsIfTypesDiffer) {
  expect_hang([](Rank& r, ncclComm_t comm) {
    ncclAllReduce(r.memory, r.memory, 2, r.rank ? ncclInt32 : ncclFloat32, ncclSum, comm, r.stream);
  });
}

TEST(NcclDouble, HangsIfMessageSizesDiffer) {
  expect_hang([](Rank& r, ncclComm_t comm) {
    if (r.rank == 0)
      ncclSend(r.memory, 10, ncclFloat32, 1, comm, r.stream);
    else
      ncclRecv(r.memory, 11, ncclFloat32, 0, comm, r.stream);
  });
}

TEST(NcclDouble, HangsIfAnEmptyMessageIsMissing) {
  expect_hang([](Rank& r, ncclComm_t comm) {
    ncclGroupStart();
    ncclSend(r.memory, 0, ncclFloat32, 1 - r.rank, comm, r.stream);
    if (r.rank == 0) ncclRecv(r.memory, 0, ncclFloat32, 1, comm, r.stream);
    ncclGroupEnd();
    if (r.rank == 1)  // rank 1's messages are done, so rank 1 waits here for a call that rank 0 never reaches
      ncclAllReduce(r.memory, r.memory, 1, ncclFloat32, ncclSum, comm, r.stream);
    else
      ncclRecv(r.memory, 0, ncclFloat32, 1, comm, r.stream);
  });
}

TEST(NcclDouble, HangsIfBothRanksSendBeforeTheyReceive) {
  expect_hang([](Rank& r, ncclComm_t comm) {
    ncclSend(r.memory, 4, ncclFloat32, 1 - r.rank, comm, r.stream);
    ncclRecv(r.memory + 100, 4, ncclFloat32, 1 - r.rank, comm, r.stream);
  });
}

// Launches sums of two communicators on separate streams, in opposite orders on the two ranks. Each sum needs `ctas`
// multiprocessors. Expects a hang if `hangs` is true.
void cross(int ctas, bool hangs) {
  on_ranks(2, [&](Rank& r) {
    const ncclComm_t root = r.make();
    const ncclComm_t comms[] = {r.split(root, "a", ctas), r.split(root, "b", ctas)};
    cudaStream_t streams[] = {r.stream, nullptr};
    EXPECT_EQ(cudaStreamCreateWithPriority(&streams[1], cudaStreamNonBlocking, 0), cudaSuccess);
    const auto reduce = [&](int i) {
      EXPECT_EQ(ncclAllReduce(r.memory + i, r.memory + i, 1, ncclFloat32, ncclSum, comms[i], streams[i]), ncclSuccess);
    };
    for (const int i : {0, 1}) {  // connects the ranks
      reduce(i);
      EXPECT_TRUE(r.ends(10s, streams[i]));
    }
    reduce(r.rank);
    std::this_thread::sleep_for(20ms);  // the operation has begun
    reduce(1 - r.rank);
    EXPECT_EQ(r.ends(hangs ? 50ms : 10s, streams[0]), !hangs);
    for (const ncclComm_t c : {comms[0], comms[1], root}) EXPECT_EQ(ncclCommAbort(c), ncclSuccess);
    for (const cudaStream_t s : streams) EXPECT_TRUE(r.ends(10s, s));
    EXPECT_EQ(cudaStreamDestroy(streams[1]), cudaSuccess);
  });
}

TEST(NcclDouble, HangsIfCrossedOperationsDoNotFitOnADevice) { cross(100, true); }
TEST(NcclDouble, RunsCrossedOperationsIfTheyFitOnADevice) { cross(16, false); }

// Launches a sum of communicator `a` on a busy stream, and then a sum of `b` on another stream. Returns true if the sum
// of `b` ends within 50 ms.
bool b_ends_before_a_begins(Rank& r) {
  const ncclComm_t root = r.make(), a = r.split(root, "a"), b = r.split(root, "b");
  cudaStream_t other = nullptr;
  EXPECT_EQ(cudaStreamCreateWithPriority(&other, cudaStreamNonBlocking, 0), cudaSuccess);
  const auto reduce = [&](ncclComm_t comm, cudaStream_t stream, int64_t at) {
    EXPECT_EQ(ncclAllReduce(r.memory + at, r.memory + at, 1, ncclFloat32, ncclSum, comm, stream), ncclSuccess);
  };
  reduce(a, r.stream, 0), reduce(b, other, 1);  // connects the ranks
  EXPECT_TRUE(r.ends(10s) && r.ends(10s, other));
  std::promise<void> gate;
  enqueue(r.stream, [f = gate.get_future().share()] { f.wait(); });
  reduce(a, r.stream, 0), reduce(b, other, 1);
  const bool ended = r.ends(50ms, other);
  gate.set_value();
  EXPECT_TRUE(r.ends(10s) && r.ends(10s, other));
  for (const ncclComm_t c : {a, b, root}) EXPECT_EQ(ncclCommDestroy(c), ncclSuccess);
  EXPECT_EQ(cudaStreamDestroy(other), cudaSuccess);
  return ended;
}

TEST(NcclDouble, BeginsOperationsInTheOrderOfTheirLaunchesOnRequest) {
  on_ranks(2, [](Rank& r) { EXPECT_TRUE(b_ends_before_a_begins(r)); });
  ASSERT_EQ(setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 1), 0);
  on_ranks(2, [](Rank& r) { EXPECT_FALSE(b_ends_before_a_begins(r)); });
  ASSERT_EQ(unsetenv("NCCL_LAUNCH_ORDER_IMPLICIT"), 0);
}

TEST(NcclDouble, ConnectsRanksWhenTheirDevicesAreIdle) {
  on_ranks(2, [](Rank& r) {
    const ncclComm_t comm = r.make();
    cudaStream_t busy = nullptr;
    EXPECT_EQ(cudaStreamCreateWithPriority(&busy, cudaStreamNonBlocking, 0), cudaSuccess);
    std::promise<void> gate;
    enqueue(busy, [f = gate.get_future().share()] { f.wait(); });
    auto launched = std::async(std::launch::async, [&] {
      EXPECT_EQ(cudaSetDevice(r.rank), cudaSuccess);
      return ncclAllReduce(r.memory, r.memory, 1, ncclFloat32, ncclSum, comm, r.stream);
    });
    EXPECT_EQ(launched.wait_for(50ms), std::future_status::timeout);
    gate.set_value();
    EXPECT_EQ(launched.get(), ncclSuccess);
    EXPECT_TRUE(r.ends(10s));
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
    EXPECT_EQ(cudaStreamDestroy(busy), cudaSuccess);
  });
}

TEST(NcclDouble, RefusesADeviceOfTwoRanks) {
  on_ranks(2, [](Rank& r) {
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
    ncclComm_t comm = nullptr;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    EXPECT_EQ(ncclCommInitRankConfig(&comm, 2, r.id, r.rank, &config), ncclInvalidUsage);
    EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
    ASSERT_EQ(cudaSetDevice(r.rank), cudaSuccess);
  });
}

TEST(NcclDouble, RefusesThreadsWithoutADevice) {
  on_ranks(1, [](Rank& r) {
    const ncclComm_t comm = r.make();
    std::thread([&] {
      void* handle = nullptr;
      ncclWindow_t window = nullptr;
      EXPECT_EQ(ncclAllReduce(r.memory, r.memory, 1, ncclFloat32, ncclSum, comm, r.stream), ncclUnhandledCudaError);
      EXPECT_EQ(ncclSend(r.memory, 1, ncclFloat32, 0, comm, r.stream), ncclUnhandledCudaError);
      EXPECT_EQ(ncclCommRegister(comm, r.memory, 4096, &handle), ncclUnhandledCudaError);
      EXPECT_EQ(ncclCommDeregister(comm, r.memory), ncclUnhandledCudaError);
      EXPECT_EQ(ncclCommWindowRegister(comm, r.memory, 4096, &window, 0), ncclUnhandledCudaError);
      EXPECT_EQ(ncclCommWindowDeregister(comm, window), ncclUnhandledCudaError);
      EXPECT_EQ(ncclCommFinalize(comm), ncclUnhandledCudaError);
    }).join();
    EXPECT_EQ(take_calls_without_device(), 7);
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  });
}

TEST(NcclDouble, RefusesMemoryOfTheHost) {
  on_ranks(2, [](Rank& r) {
    const ncclComm_t comm = r.make();
    float host = 0;
    EXPECT_EQ(ncclAllReduce(&host, &host, 1, ncclFloat32, ncclSum, comm, r.stream), ncclInvalidArgument);
    EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  });
}

// Expects windows of two ranks to be mapped, or not to be mapped.
void expect_mapped_windows(bool mapped) {
  on_ranks(2, [&](Rank& r) {
    const ncclComm_t world = r.make();
    const ncclComm_t comm = r.split(world, "group");
    ncclWindow_t window = nullptr;
    EXPECT_EQ(ncclCommWindowRegister(comm, r.memory, Rank::floats * sizeof(float), &window, NCCL_WIN_COLL_SYMMETRIC),
              ncclSuccess);
    EXPECT_EQ(window->begins.empty(), !mapped);
    EXPECT_EQ(ncclCommWindowDeregister(comm, window), ncclSuccess);
    for (const ncclComm_t c : {comm, world}) EXPECT_EQ(ncclCommDestroy(c), ncclSuccess);
  });
}

TEST(NcclDouble, MapsWindowsOnlyWithinANode) {
  for (const int cards_per_node : {1, 2}) {
    const auto change = NcclChange::cards_per_node(cards_per_node);
    expect_mapped_windows(cards_per_node == 2);
  }
}

TEST(NcclDouble, EndsChangesAfterAnError) {
  const auto fail_with = [](NcclChange (*make)()) {
    const NcclChange change = make();
    throw std::runtime_error("a rank failed");
  };
  const auto one_card_per_node = [] { return NcclChange::cards_per_node(1); };
  EXPECT_THROW(fail_with(one_card_per_node), std::runtime_error);
  expect_mapped_windows(true);
  EXPECT_THROW(fail_with(NcclChange::no_mapped_windows), std::runtime_error);
  expect_mapped_windows(true);
}

TEST(NcclDouble, RegistersOnlyWholeBlocksOfMappedMemory) {
  const int64_t faults = nccl_registration_faults();
  on_ranks(1, [&](Rank& r) {
    const ncclComm_t comm = r.make();
    const device::cuda::Driver driver(0);
    device::cuda::WholeBlocks blocks(driver);
    auto* const block = static_cast<std::byte*>(blocks.take(4 << 20));
    void* handle = nullptr;
    EXPECT_EQ(ncclCommRegister(comm, r.memory, 4096, &handle), ncclInvalidArgument)
        << "memory of cudaMalloc cannot be registered";
    EXPECT_EQ(ncclCommRegister(comm, block, 2 << 20, &handle), ncclInvalidArgument)
        << "a part of a block cannot be registered";
    EXPECT_EQ(ncclCommRegister(comm, block + (2 << 20), 2 << 20, &handle), ncclInvalidArgument)
        << "a part of a block cannot be registered";
    EXPECT_EQ(ncclCommDeregister(comm, block), ncclInvalidUsage)
        << "a block that is not registered cannot be deregistered";
    EXPECT_EQ(ncclCommRegister(comm, block, 4 << 20, &handle), ncclSuccess);
    EXPECT_EQ(ncclCommRegister(comm, block, 4 << 20, &handle), ncclInvalidUsage)
        << "a block cannot be registered twice";
    EXPECT_EQ(nccl_registrations(), 1);
    EXPECT_EQ(nccl_registration_faults(), faults);
    blocks.give(block);
    EXPECT_EQ(nccl_registration_faults(), faults + 1) << "unmapping registered pages is a fault";
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
    EXPECT_EQ(nccl_registration_faults(), faults + 2) << "a registration that outlives its communicator is a fault";
    EXPECT_EQ(nccl_registrations(), 0);
  });
}

TEST(NcclDouble, HangsIfOnlyOneRanksBufferIsRegistered) {
  const device::cuda::Driver driver(0);
  device::cuda::WholeBlocks blocks(driver);
  void* const block = blocks.take(2 << 20);
  expect_hang([&](Rank& r, ncclComm_t comm) {
    void* handle = nullptr;
    if (r.rank == 0) {
      EXPECT_EQ(ncclCommRegister(comm, block, 2 << 20, &handle), ncclSuccess);
    }
    void* const x = r.rank == 0 ? block : r.memory;
    EXPECT_EQ(ncclAllReduce(x, x, 4, ncclFloat32, ncclSum, comm, r.stream), ncclSuccess);
  });
  blocks.give(block);
}

TEST(NcclDouble, MakesCommunicatorsWithoutBlockingOnRequest) {
  on_ranks(2, [](Rank& r) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t comm = nullptr, child = nullptr;
    if (r.rank == 1) std::this_thread::sleep_for(50ms);
    EXPECT_EQ(ncclCommInitRankConfig(&comm, 2, r.id, r.rank, &config), ncclInProgress);
    EXPECT_TRUE(r.rank == 1 || ncclCommSplit(comm, 0, 0, &child, nullptr) == ncclInvalidArgument)
        << "the communicator is not ready yet";
    const auto settle = [&] {
      ncclResult_t state = ncclInProgress;
      while (state == ncclInProgress) {
        std::this_thread::sleep_for(1ms);
        EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
      }
      EXPECT_EQ(state, ncclSuccess);
    };
    settle();
    EXPECT_EQ(ncclCommSplit(comm, 0, -r.rank, &child, nullptr), ncclInProgress);
    settle();
    int rank = -1;
    ASSERT_NE(child, nullptr);
    EXPECT_EQ(ncclCommUserRank(child, &rank), ncclSuccess);
    EXPECT_EQ(rank, 1 - r.rank) << "ranks are ordered by key";
    EXPECT_EQ(ncclCommFinalize(comm), ncclInProgress);
    settle();
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
    EXPECT_EQ(ncclCommAbort(child), ncclSuccess);
  });
}

TEST(NcclDouble, ReportsALostRankToItsPeers) {
  on_ranks(2, [](Rank& r) {
    const ncclComm_t comm = r.make();
    EXPECT_EQ(ncclAllReduce(r.memory, r.memory, 1, ncclFloat32, ncclSum, comm, r.stream), ncclSuccess);
    EXPECT_TRUE(r.ends(10s));
    if (r.rank == 1) lose_nccl_ranks(1);
    ncclResult_t state = ncclSuccess;
    for (int i = 0; r.rank == 0 && i < 1000 && state == ncclSuccess; ++i) {
      std::this_thread::sleep_for(1ms);
      EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
    }
    EXPECT_EQ(state, r.rank == 0 ? ncclRemoteError : ncclSuccess);
    EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  });
}

}  // namespace
}  // namespace hexad::cuda_double
