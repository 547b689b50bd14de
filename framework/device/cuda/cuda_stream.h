// A queue of the card as a Stream, and objects that the kernels of one context share.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string_view>
#include <typeindex>
#include <unordered_map>

#include "framework/device/cuda/device_blocks.h"
#include "framework/device/cuda/queue.h"
#include "framework/device/stream.h"

namespace hexad::device::cuda {

/// The card of a context, and objects that kernels reuse between calls: library handles, plans, workspaces. There is
/// one object per type, made at first use and destroyed with this Card. Only the thread that issues the context's work
/// may call reserve() and shared().
class Card {
 public:
  explicit Card(int ordinal);
  int ordinal() const { return ordinal_; }
  /// Returns the clock of the card's streams.
  const std::shared_ptr<CardClock>& clock() const { return clock_; }
  const cudaDeviceProp& properties() const { return properties_; }
  int multiprocessors() const { return properties_.multiProcessorCount; }
  /// Maximum bytes of shared memory per block. A kernel that uses more than 48 KiB must request its size before the
  /// launch.
  size_t shared_memory() const { return properties_.sharedMemPerBlockOptin; }
  /// Number of multiprocessors that are reserved for communication. Matrix products must not use them.
  int reserved() const { return reserved_; }
  /// Reserves at least `multiprocessors` multiprocessors for communication; 0 reserves none. If any are reserved, an
  /// even number is left for matrix products, because products use multiprocessors in pairs. Throws Error(usage) if
  /// `multiprocessors` is negative, or if fewer than two multiprocessors would remain.
  void reserve(int multiprocessors);

  /// Returns the shared object of type T, which must be default-constructible.
  template <class T>
  T& shared() {
    auto& slot = shared_[std::type_index(typeid(T))];
    if (!slot) slot = std::make_shared<T>();
    return *static_cast<T*>(slot.get());
  }

 private:
  int ordinal_;
  const std::shared_ptr<CardClock> clock_;
  cudaDeviceProp properties_{};
  int reserved_ = 0;
  std::unordered_map<std::type_index, std::shared_ptr<void>> shared_;
};

class CudaStream final : public Stream {
 public:
  CudaStream(std::shared_ptr<Card> card, std::shared_ptr<Blocks> blocks, int priority);

  void run(std::function<void()> work) override;  // throws std::logic_error, because the queue runs no host work
  void wait(const Event& event) override { queue_->wait(event); }
  Event record() override { return Event::at(queue_->record()); }
  Event record_timed() override { return Event::at(queue_->record_timed()); }
  bool on_device() const override { return true; }

  /// Returns a handle that permits launches during its lifetime. Before each launch, call touch() for all memory that
  /// the launch reads or writes.
  Queue::Handle handle() const { return queue_->handle(); }
  /// Announces a launch in this stream that uses the block containing the address `place`. Ignores null and addresses
  /// outside all blocks.
  void touch(const void* place) { blocks_->touch(place, queue_); }
  Card& card() const { return *card_; }
  /// CUDA priority that was requested for the queue.
  int priority() const { return priority_; }
  const std::shared_ptr<Queue>& queue() const { return queue_; }
  const std::shared_ptr<Blocks>& blocks() const { return blocks_; }
  /// Returns a stream with a new queue of the same card. `priority` is a CUDA priority: the card prefers queues with
  /// lower numbers. The nearest supported priority is used if the card does not support `priority`.
  std::unique_ptr<CudaStream> beside(int priority) const;

 private:
  std::shared_ptr<Card> card_;
  std::shared_ptr<Blocks> blocks_;
  int priority_;
  std::shared_ptr<Queue> queue_;
};

/// Casts to a CUDA stream. Throws std::logic_error for a stream of another device.
CudaStream& cuda_stream(Stream& stream);

}  // namespace hexad::device::cuda
