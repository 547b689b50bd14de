// A CUDA stream as a Stream, and what the kernels of one context share.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>
#include <string_view>
#include <typeindex>
#include <unordered_map>
#include <vector>

#include "framework/device/stream.h"

namespace hexad::device::cuda {

/// The card of a context and what kernel families keep there between calls: library handles, plans, workspaces. One
/// object a type, made at first use and destroyed with the context. Used by the context's issuing thread alone.
class Card {
 public:
  explicit Card(int ordinal);
  int ordinal() const { return ordinal_; }
  const cudaDeviceProp& properties() const { return properties_; }
  int multiprocessors() const { return properties_.multiProcessorCount; }

  /// T is default-constructible.
  template <class T>
  T& shared() {
    auto& slot = shared_[std::type_index(typeid(T))];
    if (!slot) slot = std::make_shared<T>();
    return *static_cast<T*>(slot.get());
  }

 private:
  int ordinal_;
  cudaDeviceProp properties_{};
  std::unordered_map<std::type_index, std::shared_ptr<void>> shared_;
};

/// A CUDA stream that does not wait for the default one, with the events recorded in it. Lives in a shared_ptr:
/// streams, allocators and marks hold it. Safe to use from several threads.
class Queue : public std::enable_shared_from_this<Queue> {
 public:
  /// `priority`: CUDA's, lower numbers first. Makes the card the calling thread's.
  Queue(int ordinal, int priority);
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  cudaStream_t handle() const { return handle_; }
  int ordinal() const { return ordinal_; }
  /// The present end of the queue.
  std::shared_ptr<const DeviceMark> record();
  /// The same, and it will be known when it was passed.
  std::shared_ptr<const DeviceMark> record_timed();
  /// A mark of another queue is waited for by this queue, of this queue it needs nothing; for others the host blocks.
  void wait(const Event& event);
  /// Blocks the host until the queue is empty.
  void synchronize() const;

 private:
  class Mark;
  class Clock;
  /// Events of one kind that nobody holds: making one costs several times what recording it does.
  using Unused = std::vector<cudaEvent_t>;
  std::shared_ptr<const DeviceMark> record(Unused& unused, unsigned flags, std::shared_ptr<const Clock> clock);

  int ordinal_;
  cudaStream_t handle_ = nullptr;
  std::mutex mutex_;  // guards what follows
  Unused plain_, timed_;
  std::shared_ptr<const Clock> clock_;
};

class CudaStream final : public Stream {
 public:
  CudaStream(std::shared_ptr<Card> card, std::shared_ptr<Queue> queue)
      : card_(std::move(card)), queue_(std::move(queue)) {}

  void run(std::function<void()> work) override;  // throws std::logic_error
  void wait(const Event& event) override { queue_->wait(event); }
  Event record() override { return Event::at(queue_->record()); }
  Event record_timed() override { return Event::at(queue_->record_timed()); }
  bool on_device() const override { return true; }

  cudaStream_t handle() const { return queue_->handle(); }
  Card& card() const { return *card_; }

 private:
  std::shared_ptr<Card> card_;
  std::shared_ptr<Queue> queue_;
};

/// Throws std::logic_error for a stream of another device.
CudaStream& cuda_stream(Stream& stream);

}  // namespace hexad::device::cuda
