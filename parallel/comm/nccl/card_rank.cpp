#include "parallel/comm/nccl/card_rank.h"

#include <algorithm>

#include "framework/base/ordinal.h"
#include "framework/base/units.h"
#include "framework/device/card_memory.h"
#include "framework/device/cuda/cuda_check.h"
#include "framework/device/cuda/thread_card.h"
#include "framework/tensor/device_access.h"

namespace hexad::comm::nccl {

using device::cuda::check;
using device::cuda::CudaStream;

void TrafficStream::touch(const Tensor& t, Stream& caller) {
  if (t.defined()) device::cuda::cuda_stream(caller).blocks()->touch(tensor::device_raw(t), stream_->queue());
}

void TrafficStream::end_use(const Tensor& t, Stream& caller) {
  if (t.defined()) device::cuda::cuda_stream(caller).blocks()->end_use(tensor::device_raw(t), stream_->queue());
}

namespace {

std::byte* take_scratch(int ordinal) {
  device::cuda::use_card(ordinal);
  void* bytes = nullptr;
  check(cudaMalloc(&bytes, 2), "allocating two bytes");
  return static_cast<std::byte*>(bytes);
}

}  // namespace

CardRank::CardRank(const Library& library, const CudaStream& compute, std::shared_ptr<device::Allocator> allocator,
                   int world_rank, const DeviceGroupOptions& options, int limit)
    : library_(library),
      ordinal_(compute.card().ordinal()),
      options_(options),
      max_blocks_(limit),
      compute_(compute),
      allocator_(std::move(allocator)),
      scratch_(take_scratch(ordinal_), [](void* p) { return cudaFree(p); }),
      events_(ordinal_),
      watch_(library, ordinal_, world_rank,
             {.watchdog_seconds = options.watchdog_seconds, .on_failure = options.on_failure}) {
  if (options.register_buffers) compute.blocks()->make_whole();
  check(cudaDeviceGetStreamPriorityRange(&least_, &greatest_), "querying the priorities of streams");
  least_ = std::min(least_, compute.priority());  // no traffic has a lower priority than computation
}

CommunicatorConfig CardRank::named(CommunicatorConfig config, TrafficClass traffic, std::string name) const {
  config.name = std::move(name);
  config.max_ctas = std::min(config.max_ctas, max_blocks_);
  config.network_class = options_.network_class[base::ordinal(traffic)];
  return config;
}

const std::shared_ptr<TrafficStream>& CardRank::stream(StreamKind kind) {
  std::shared_ptr<TrafficStream>& stream = streams_[kind];
  if (!stream) stream = make_stream(kind);
  return stream;
}

std::shared_ptr<TrafficStream> CardRank::make_stream(StreamKind kind) {
  return std::make_shared<TrafficStream>(
      compute_.beside(stream_priority(kind, options_.priorities, least_, greatest_)));
}

int64_t CardRank::memory_taken(const std::string& name, int64_t expected, const std::function<void()>& take) {
  const int64_t before = device::cuda_available_memory(ordinal_);
  try {
    take();
  } catch (const Error& e) {
    // NCCL has no error code for a lack of card memory: it reports "unhandled cuda error", in some cases with the text
    // "out of memory". Therefore, a lack of memory is also assumed if less than `expected` was available.
    const bool no_room =
        before < expected || std::string_view(e.what()).find("out of memory") != std::string_view::npos;
    if (!no_room) throw;
    const auto shown = [](int64_t bytes) { return base::human_bytes(static_cast<double>(bytes)); };
    base::fail(base::ExitCode::resource, "[nccl] the card is out of memory: to connect the ranks of group ", name,
               ", NCCL needs ",
               before < expected ? base::cat("about ", shown(expected), ", but ", shown(before), " are available")
                                 : base::cat("more than the ", shown(before), " that are available"),
               " (", e.what(),
               "); set distributed.device_collectives: host, which needs no card memory. Memory in use:\n",
               allocator_->stats().table());
  }
  const int64_t bytes = std::max<int64_t>(0, before - device::cuda_available_memory(ordinal_));
  allocator_->account(bytes, device::Category::connection);
  memory_.bytes += bytes;
  return bytes;
}

void CardRank::memory_given_back(int64_t bytes) noexcept {
  allocator_->account(-bytes, device::Category::connection);
  memory_.bytes -= bytes;
}

Event CardRank::launch(TrafficStream& on, Stream& after, Watch::Launch launch, const std::function<void()>& work) {
  const Watch::HostCall call(watch_, launch.what);
  on.stream().wait(after.record());
  {
    const auto stream = on.handle();
    launch.begin = events_.record(stream.get());
    work();
    launch.end = events_.record(stream.get());
    watch_.launched(stream.get(), std::move(launch));
  }
  return on.stream().record_timed();  // measured passes read the time at which the operation ended
}

}  // namespace hexad::comm::nccl
