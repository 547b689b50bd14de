// State shared by the NCCL groups of one rank: its card, its streams by class, and the watch over them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "framework/device/allocator.h"
#include "framework/device/cuda/cuda_stream.h"
#include "parallel/comm/device_group.h"
#include "parallel/comm/nccl/class_config.h"
#include "parallel/comm/nccl/library.h"
#include "parallel/comm/nccl/timed_events.h"
#include "parallel/comm/nccl/watch.h"

namespace hexad::comm::nccl {

/// A stream of the card for traffic. A launch on it starts once the caller's stream reaches the place of the call.
/// Launches run in order. The caller's stream does not wait.
class TrafficStream {
 public:
  explicit TrafficStream(std::unique_ptr<device::cuda::CudaStream> stream) : stream_(std::move(stream)) {}
  Stream& stream() { return *stream_; }
  device::cuda::Queue::Handle handle() const { return stream_->handle(); }
  /// Orders `t` after the work of `caller`. Call it before a launch that reads or writes `t`. `caller` is a stream of
  /// the tensor's context.
  void touch(const Tensor& t, Stream& caller);
  /// Ends the use of `t` by this stream at the stream's current end. A stream that reuses the memory then does not wait
  /// for later launches on this stream.
  void end_use(const Tensor& t, Stream& caller);

 private:
  std::unique_ptr<device::cuda::CudaStream> stream_;
};

class CardRank {
 public:
  /// Makes the state of one rank. `compute` is a stream of the context, which outlives this object. `allocator` is the
  /// context's and counts the memory of the card that NCCL takes.
  CardRank(const Library& library, const device::cuda::CudaStream& compute,
           std::shared_ptr<device::Allocator> allocator, int world_rank, const DeviceGroupOptions& options);

  const Library& library() const { return library_; }
  int ordinal() const { return ordinal_; }
  const DeviceGroupOptions& options() const { return options_; }
  Watch& watch() { return watch_; }
  /// Returns `config` with the name of a communicator and the network class of its traffic.
  CommunicatorConfig named(CommunicatorConfig config, TrafficClass traffic, std::string name) const;
  /// Returns the stream that all groups of this kind share. Their launches run in the order of the calls.
  const std::shared_ptr<TrafficStream>& stream(StreamKind kind);
  std::shared_ptr<TrafficStream> make_stream(StreamKind kind);

  /// Returns two unused bytes of the card's memory.
  std::byte* scratch() const { return scratch_.get(); }

  /// Runs `take`, in which NCCL takes memory of the card for group `name`. Counts this memory and returns its bytes.
  /// Throws Error(resource), with the name and `expected`, the estimated bytes, if `take` throws because the card has
  /// too little memory.
  int64_t memory_taken(const std::string& name, int64_t expected, const std::function<void()>& take);
  void memory_given_back(int64_t bytes) noexcept;
  void communicator_made() { ++memory_.communicators; }
  void communicator_ended() { --memory_.communicators; }
  /// Returns the rank's communicators and the memory that they take.
  const ConnectionMemory& memory() const { return memory_; }

  /// Launches `work` on stream `on` once stream `after` has reached its current end. `launch` describes the operation
  /// without its events. Returns an event of the card.
  Event launch(TrafficStream& on, Stream& after, Watch::Launch launch, const std::function<void()>& work);

 private:
  const Library& library_;
  const int ordinal_;
  const DeviceGroupOptions options_;
  const device::cuda::CudaStream& compute_;
  const std::shared_ptr<device::Allocator> allocator_;
  ConnectionMemory memory_;
  int least_ = 0, greatest_ = 0;  // range of stream priorities
  std::map<StreamKind, std::shared_ptr<TrafficStream>> streams_;
  std::unique_ptr<std::byte, cudaError_t (*)(void*)> scratch_;
  TimedEvents events_;
  Watch watch_;  // last, because its thread uses the library and events
};

}  // namespace hexad::comm::nccl
