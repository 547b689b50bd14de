#include "parallel/comm/nccl/card_rank.h"

#include "framework/base/ordinal.h"
#include "framework/device/cuda/cuda_check.h"
#include "framework/device/cuda/thread_card.h"
#include "framework/tensor/device_access.h"

namespace hexad::comm::nccl {

using device::cuda::check;
using device::cuda::CudaStream;

void TrafficStream::touch(const Tensor& t, Stream& caller) {
  if (t.defined()) device::cuda::cuda_stream(caller).blocks()->touch(tensor::device_raw(t), stream_->queue());
}

namespace {

std::byte* take_scratch(int ordinal) {
  device::cuda::use_card(ordinal);
  void* bytes = nullptr;
  check(cudaMalloc(&bytes, 2), "allocating two bytes");
  return static_cast<std::byte*>(bytes);
}

}  // namespace

CardRank::CardRank(const Library& library, const CudaStream& compute, int world_rank, const DeviceGroupOptions& options)
    : library_(library),
      ordinal_(compute.card().ordinal()),
      options_(options),
      compute_(compute),
      scratch_(take_scratch(ordinal_), [](void* p) { return cudaFree(p); }),
      events_(ordinal_),
      watch_(library, ordinal_, world_rank,
             {.watchdog_seconds = options.watchdog_seconds, .on_failure = options.on_failure}) {
  if (options.register_buffers) compute.blocks()->make_whole();
  check(cudaDeviceGetStreamPriorityRange(&least_, &greatest_), "querying the priorities of streams");
}

CommunicatorConfig CardRank::named(CommunicatorConfig config, TrafficClass traffic, std::string name) const {
  config.name = std::move(name);
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
  return on.stream().record();
}

}  // namespace hexad::comm::nccl
