// An NVIDIA card as a device.
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "framework/base/error.h"
#include "framework/device/backend.h"
#include "framework/device/card_memory.h"
#include "framework/device/cuda/card_allocator.h"
#include "framework/device/cuda/check.h"
#include "framework/device/cuda/cuda_stream.h"
#include "framework/device/cuda/pinned_allocator.h"
#include "framework/device/cuda/reused_buffers.h"

namespace hexad::device {
namespace {

using cuda::check;

[[noreturn]] void refuse(const std::string& reason) {
  base::fail(base::ExitCode::resource, "device: cuda was asked for, but ", reason, "; use device: cpu");
}

// CUDA's 13000 is 13.0.
std::string version(int number) { return base::cat(number / 1000, ".", number % 1000 / 10); }

// Streams that share one of the card's connections wait for each other, and by default it has 8: fewer than lanes and
// classes of traffic are. Read by CUDA at its first call.
void ask_for_connections() {
  static const int done = setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  static_cast<void>(done);
}

int count_devices() {
  ask_for_connections();
  int driver = 0, runtime = 0;
  check(cudaDriverGetVersion(&driver), "asking for the driver's version");
  if (driver == 0) refuse("no NVIDIA driver is loaded (there is no libcuda.so.1)");
  check(cudaRuntimeGetVersion(&runtime), "asking for CUDA's version");
  int devices = 0;
  const cudaError_t result = cudaGetDeviceCount(&devices);
  static_cast<void>(cudaGetLastError());  // answered here
  if (result == cudaErrorInsufficientDriver)
    refuse(base::cat("the NVIDIA driver knows CUDA ", version(driver), " and this program needs ", version(runtime)));
  if (result == cudaErrorNoDevice || (result == cudaSuccess && devices == 0)) {
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    refuse(visible ? base::cat("no GPU is visible (CUDA_VISIBLE_DEVICES is '", visible, "')") : "there is no GPU");
  }
  if (result != cudaSuccess) refuse(base::cat("the driver fails: ", cudaGetErrorString(result)));
  return devices;
}

// Ranks of one node get its cards in turn.
int choose_device(int devices, int place) {
  const char* text = std::getenv("HEXAD_LOCAL_RANK");
  if (!text) return place % devices;
  char* end = nullptr;
  const long rank = std::strtol(text, &end, 10);
  if (end == text || *end != '\0' || rank < 0)
    base::fail(base::ExitCode::usage, "HEXAD_LOCAL_RANK is '", text, "', expected a number from 0");
  return static_cast<int>(rank % devices);
}

// HEXAD_CUDA_ARCH is "90a": kernels that use what only this generation has; or "90": that one and later ones.
void require_generation(const cudaDeviceProp& card) {
  const std::string built = HEXAD_CUDA_ARCH;
  const int needed = std::atoi(built.c_str()), has = 10 * card.major + card.minor;
  const bool only = built.find_first_not_of("0123456789") != std::string::npos;
  if (only ? has != needed : has < needed)
    refuse(base::cat("the ", card.name, " has compute capability ", card.major, ".", card.minor,
                     " and this program was built for ", needed / 10, ".", needed % 10, only ? "" : " and later"));
}

// A segment grows where there is room in a row, so it has more addresses than the card has memory.
int64_t addresses_of(const cudaDeviceProp& card) {
  constexpr int64_t step = int64_t{1} << 30;
  return 4 * (static_cast<int64_t>(card.totalGlobalMem) / step + 1) * step;
}

// What others wait for goes first where the card has room for one of two: traffic before copies and computation.
int priority_of(Lane lane) { return lane == Lane::inter || lane == Lane::intra ? -2 : 0; }

constexpr int64_t most_staged = int64_t{64} << 20;

bool is_pageable(const void* memory) {
  cudaPointerAttributes attributes{};
  cuda::check(cudaPointerGetAttributes(&attributes, memory), "asking for a pointer's kind");
  return attributes.type == cudaMemoryTypeUnregistered;
}

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(const ContextOptions& options)
      : options_(options), card_(std::make_shared<cuda::Card>(choose_device(count_devices(), options.place))) {
    require_generation(card_->properties());
    pinned_ = std::make_shared<cuda::PinnedMemory>(card_->ordinal(), options.pinned_limit);
    buffers_ = std::make_shared<cuda::ReusedBuffers>(blocks_, pinned_);
  }

  DeviceKind kind() const override { return DeviceKind::cuda; }
  std::string description() const override {
    return base::cat(card_->properties().name, ", ", card_->multiprocessors(), " SMs");
  }
  std::shared_ptr<Allocator> make_allocator() override {
    return std::make_shared<cuda::CardAllocator>(
        blocks_, cuda::CardAllocator::Options{.ordinal = card_->ordinal(),
                                              .addresses = addresses_of(card_->properties()),
                                              .limit = options_.memory_limit,
                                              .poison = options_.poison});
  }
  std::shared_ptr<Allocator> make_offload_allocator() override {
    return std::make_shared<cuda::PinnedAllocator>(blocks_, pinned_);
  }
  // Every lane is a queue of its own, whoever wishes that lanes run by themselves.
  std::unique_ptr<Stream> make_lane(Lane lane, bool) override {
    return std::make_unique<cuda::CudaStream>(card_, blocks_, priority_of(lane));
  }

  // From memory that the program got elsewhere than here, everything has been read when the call returns, and into such
  // memory everything has been copied. For pages that may move, CUDA waits until the queue is empty; so smaller ones
  // go through a buffer of ours, and the host runs ahead. From host_buffer(), which the card reads by
  // itself, it reads when the stream comes to it: write there again only after that, or let the buffer go and take
  // another one.
  void copy(Stream& stream, void* to, const void* from, int64_t bytes) override {
    if (bytes <= 0 || to == from) return;
    cuda::CudaStream& queue = cuda::cuda_stream(stream);
    std::shared_ptr<std::byte> staged;  // let go below: used again once the queue has come past the copy
    if (bytes <= most_staged && is_pageable(from)) {
      staged = buffers_->take(bytes);
      std::memcpy(staged.get(), from, static_cast<size_t>(bytes));
      from = staged.get();
    }
    queue.touch(to);
    queue.touch(from);
    check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault, queue.handle()), "copying");
  }
  void fill(Stream& stream, void* to, uint8_t byte, int64_t bytes) override {
    if (bytes <= 0) return;
    cuda::CudaStream& queue = cuda::cuda_stream(stream);
    queue.touch(to);
    check(cudaMemsetAsync(to, byte, static_cast<size_t>(bytes), queue.handle()), "filling memory");
  }
  std::shared_ptr<std::byte> host_buffer(int64_t bytes) override { return buffers_->take(bytes); }

 private:
  const ContextOptions options_;
  const std::shared_ptr<cuda::Card> card_;
  const std::shared_ptr<cuda::Blocks> blocks_ = std::make_shared<cuda::Blocks>();
  std::shared_ptr<cuda::PinnedMemory> pinned_;
  std::shared_ptr<cuda::ReusedBuffers> buffers_;
};

}  // namespace

std::unique_ptr<Backend> make_cuda_backend(const ContextOptions& options) {
  return std::make_unique<CudaBackend>(options);
}

CardMemory cuda_card_memory(int place) {
  const cuda::Card card(choose_device(count_devices(), place));
  require_generation(card.properties());
  size_t available = 0, total = 0;
  check(cudaSetDevice(card.ordinal()), "choosing the card");
  check(cudaMemGetInfo(&available, &total), "asking for the card's memory");
  const auto& uuid = card.properties().uuid.bytes;
  return {.id = std::string(std::begin(uuid), std::end(uuid)),
          .name = card.properties().name,
          .available = static_cast<int64_t>(available)};
}

}  // namespace hexad::device
