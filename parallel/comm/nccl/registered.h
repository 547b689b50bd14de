// Buffers that a communicator has registered with NCCL.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "parallel/comm/nccl/card_rank.h"

namespace hexad::comm::nccl {

/// Registered buffers of a communicator. NCCL reads and writes these buffers without copying them if links and
/// algorithms permit.
///
/// NCCL requires that each buffer is in a single allocation of card memory, at the same offset on all ranks. The
/// buffers of an operation must be registered on all ranks or on no rank. Buffers must be deregistered before their
/// pages are freed. Whole blocks (framework/device/cuda/whole_blocks.h) meet the first requirement: each is one
/// allocation that holds one bucket of gradients or weights, and buckets have the same sizes on all ranks.
///
/// use() registers each block only once. The block remains registered until it is freed or the communicator ends.
/// Thread-safe, because any thread may free blocks.
class Registered : public std::enable_shared_from_this<Registered> {
 public:
  /// Makes the object; returns null if the rank's options turn registration off.
  static std::shared_ptr<Registered> make(CardRank& card, ncclComm_t communicator, const std::string& name);

  /// Registers the blocks of `tensors` if all of these tensors are in whole blocks. `caller` is a stream of their
  /// context. Launch the operation on `stream` while holding the returned lock, because NCCL accepts only one call per
  /// communicator at a time.
  [[nodiscard]] std::unique_lock<std::mutex> use(std::span<const Tensor* const> tensors, Stream& caller,
                                                 const std::shared_ptr<TrafficStream>& stream);
  /// Deregisters all buffers. First waits for the operations of the communicator, if there are any buffers. Called when
  /// the communicator ends.
  void end();
  /// Forgets all buffers. Called when the communicator is aborted, because NCCL then deregisters the buffers itself.
  void forget();

 private:
  Registered(CardRank& card, ncclComm_t communicator, const std::string& name)
      : card_(card), communicator_(communicator), name_(name) {}
  void add(device::cuda::Blocks& blocks, const device::cuda::Blocks::Extent& block);
  void remove(const void* block);
  void deregister(void* handle);

  CardRank& card_;  // unused after end() or forget()
  const ncclComm_t communicator_;
  const std::string name_;
  std::mutex mutex_;
  std::map<const void*, void*> handles_;  // keyed by the block's address
  std::shared_ptr<TrafficStream> stream_;
};

}  // namespace hexad::comm::nccl
