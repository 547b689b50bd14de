// State that the NCCL groups of one rank share: the card, one stream for each kind of traffic, and the watch that
// monitors the streams.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "framework/device/allocator.h"
#include "framework/device/cuda/cuda_stream.h"
#include "parallel/comm/class_config.h"
#include "parallel/comm/device_group.h"
#include "parallel/comm/nccl/library.h"
#include "parallel/comm/nccl/timed_events.h"
#include "parallel/comm/nccl/watch.h"

namespace hexad::comm::nccl {

/// A stream of the card for one kind of traffic. A launch on this stream starts once the caller's stream has reached
/// the point of the call. Launches run in order. The caller's stream does not wait for them.
class TrafficStream {
 public:
  explicit TrafficStream(std::unique_ptr<device::cuda::CudaStream> stream) : stream_(std::move(stream)) {}
  Stream& stream() { return *stream_; }
  device::cuda::Queue::Handle handle() const { return stream_->handle(); }
  /// Announces a launch on this stream that reads or writes `t`. Must be called before every such launch. `caller` is a
  /// stream of the context that owns `t`.
  void touch(const Tensor& t, Stream& caller);
  /// Declares that launches after this call do not use `t`. Streams that reuse the memory of `t` then do not wait for
  /// these launches.
  void end_use(const Tensor& t, Stream& caller);

 private:
  std::unique_ptr<device::cuda::CudaStream> stream_;
};

class CardRank {
 public:
  /// Makes the state of one rank. `compute` is a stream of the device context, which must outlive this object.
  /// `allocator` is the allocator of this context, which also counts the card memory that NCCL allocates. No operation
  /// gets more than `limit` thread blocks. All ranks must pass the same `limit`.
  CardRank(const Library& library, const device::cuda::CudaStream& compute,
           std::shared_ptr<device::Allocator> allocator, int world_rank, const DeviceGroupOptions& options, int limit);

  const Library& library() const { return library_; }
  int ordinal() const { return ordinal_; }
  const DeviceGroupOptions& options() const { return options_; }
  Watch& watch() { return watch_; }
  /// Returns the maximum number of thread blocks of an operation.
  int max_blocks() const { return max_blocks_; }
  /// Returns `config` with the name `name`, at most max_blocks() thread blocks, and the network class of `traffic`.
  CommunicatorConfig named(CommunicatorConfig config, TrafficClass traffic, std::string name) const;
  /// Returns the stream that all groups of kind `kind` share. Launches on it run in the order of the calls.
  const std::shared_ptr<TrafficStream>& stream(StreamKind kind);
  std::shared_ptr<TrafficStream> make_stream(StreamKind kind);

  /// Returns two bytes of the card's memory that no other code uses.
  std::byte* scratch() const { return scratch_.get(); }

  /// Calls `take`, in which NCCL allocates card memory for the group `name`. Counts this memory and returns its size in
  /// bytes. `expected` is an estimate of this size. Throws Error(resource) if the card has too little memory. The error
  /// names the group and the available bytes, and also `expected` if it exceeds the available bytes.
  int64_t memory_taken(const std::string& name, int64_t expected, const std::function<void()>& take);
  void memory_given_back(int64_t bytes) noexcept;
  void communicator_made() { ++memory_.communicators; }
  void communicator_ended() { --memory_.communicators; }
  /// Returns the number of communicators of the rank and the memory that they occupy.
  const ConnectionMemory& memory() const { return memory_; }

  /// Launches `work` on stream `on`, to start after the work launched on stream `after` so far. `launch` describes the
  /// operation; this function records its events. Returns an event that is done once the work is done on the card.
  Event launch(TrafficStream& on, Stream& after, Watch::Launch launch, const std::function<void()>& work);

 private:
  const Library& library_;
  const int ordinal_;
  const DeviceGroupOptions options_;
  const int max_blocks_;
  const device::cuda::CudaStream& compute_;
  const std::shared_ptr<device::Allocator> allocator_;
  ConnectionMemory memory_;
  int least_ = 0, greatest_ = 0;  // lowest and highest stream priority of the card
  std::map<StreamKind, std::shared_ptr<TrafficStream>> streams_;
  std::unique_ptr<std::byte, cudaError_t (*)(void*)> scratch_;
  TimedEvents events_;
  Watch watch_;  // declared last: its thread uses the library and events
};

}  // namespace hexad::comm::nccl
