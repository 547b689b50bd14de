#include "tools/bench/spinning_blocks.h"

#include <chrono>
#include <thread>

#include "framework/base/error.h"
#include "framework/device/cuda/cuda_check.h"

namespace hexad::bench {

using base::ExitCode;
using base::fail;
using device::cuda::check;

/// Flags that the blocks write and the host reads. Zero: not set yet.
struct SpinningFlags {
  volatile unsigned running[SpinningBlocks::most], expired[SpinningBlocks::most];
};

namespace {

constexpr int threads = 640, cluster = 4;
constexpr long long max_cycles = 4'000'000'000;  // two seconds at 2 GHz
constexpr std::chrono::seconds max_start_time(1);

// Spins until `*released` is not 0. After max_cycles, sets the block's flag `expired` and ends. The first thread polls.
// The other threads wait at the barrier, so that the block stays resident. `released` is in the card's memory, because
// blocks that poll the host's memory slow down all concurrent kernels.
__global__ void __launch_bounds__(threads) spin_kernel(SpinningFlags* flags, const volatile unsigned* released) {
  if (threadIdx.x == 0) {
    const long long begin = clock64();
    flags->running[blockIdx.x] = 1;
    __threadfence_system();
    while (*released == 0) {
      __nanosleep(200);
      if (clock64() - begin < max_cycles) continue;
      flags->expired[blockIdx.x] = 1;
      break;
    }
  }
  __syncthreads();
}

}  // namespace

/// Guard whose destructor ends the blocks and waits until they have ended.
class SpinningBlocks::Release {
 public:
  explicit Release(const SpinningBlocks& blocks) : blocks_(blocks) {}
  ~Release() {
    static_cast<void>(
        cudaMemsetAsync(blocks_.released_.get(), 0xff, sizeof *blocks_.released_, blocks_.release_stream_.get()));
    static_cast<void>(cudaStreamSynchronize(blocks_.stream_.get()));
  }
  Release(const Release&) = delete;
  Release& operator=(const Release&) = delete;

 private:
  const SpinningBlocks& blocks_;
};

void SpinningBlocks::Free::operator()(cudaStream_t stream) const { static_cast<void>(cudaStreamDestroy(stream)); }
void SpinningBlocks::Free::operator()(SpinningFlags* on_host) const { static_cast<void>(cudaFreeHost(on_host)); }
void SpinningBlocks::Free::operator()(unsigned* on_card) const { static_cast<void>(cudaFree(on_card)); }

SpinningBlocks::SpinningBlocks(const device::cuda::Card& card) : has_clusters_(card.properties().major >= 9) {
  int least = 0, greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "spinning blocks");
  for (auto* made : {&stream_, &release_stream_}) {
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest), "spinning blocks");
    made->reset(stream);
  }
  void *on_card = nullptr, *on_host = nullptr;
  check(cudaMalloc(&on_card, sizeof(unsigned)), "spinning blocks");
  released_.reset(static_cast<unsigned*>(on_card));
  check(cudaHostAlloc(&on_host, sizeof(SpinningFlags), cudaHostAllocMapped), "spinning blocks");
  flags_.reset(static_cast<SpinningFlags*>(on_host));
}

void SpinningBlocks::launch(int blocks) {
  SpinningFlags* on_card = nullptr;
  check(cudaHostGetDevicePointer(reinterpret_cast<void**>(&on_card), flags_.get(), 0), "spinning blocks");
  cudaLaunchAttribute in_clusters{};
  in_clusters.id = cudaLaunchAttributeClusterDimension;
  in_clusters.val.clusterDim.x = blocks % cluster == 0 ? cluster : 1;
  in_clusters.val.clusterDim.y = in_clusters.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(threads);
  config.stream = stream_.get();
  config.attrs = &in_clusters;
  config.numAttrs = has_clusters_ ? 1 : 0;
  const volatile unsigned* released = released_.get();
  void* arguments[] = {&on_card, &released};
  check(cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(spin_kernel), arguments), "spinning blocks");
}

void SpinningBlocks::run_beside(int blocks, const std::function<void()>& work) {
  if (blocks == 0) return work();
  base::require(blocks > 0 && blocks <= most, "[spinning blocks] ", blocks, " blocks; expected a number from 0 to ",
                most);
  check(cudaMemsetAsync(released_.get(), 0, sizeof *released_, stream_.get()), "spinning blocks");
  for (int b = 0; b < most; ++b) {
    flags_->running[b] = 0;
    flags_->expired[b] = 0;
  }
  {
    const Release at_end(*this);
    launch(blocks);
    const auto limit = std::chrono::steady_clock::now() + max_start_time;
    for (int b = 0; b < blocks; ++b)
      while (flags_->running[b] == 0) {
        if (std::chrono::steady_clock::now() > limit)
          fail(ExitCode::resource, "[spinning blocks] block ", b, " of ", blocks,
               " has not started within a second; expected all blocks to start");
        std::this_thread::yield();
      }
    work();
  }
  for (int b = 0; b < blocks; ++b)
    if (flags_->expired[b] != 0)
      fail(ExitCode::resource, "[spinning blocks] block ", b, " of ", blocks,
           " ended before the concurrent work; expected work of less than two seconds");
}

}  // namespace hexad::bench
