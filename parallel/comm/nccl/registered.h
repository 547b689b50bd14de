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

/// Registered buffers of a communicator. NCCL reads and writes these without copies of its own if links and algorithms
/// allow it.
///
/// NCCL requires that each buffer is in one piece of the card's memory, at the same offset on all ranks. In an
/// operation, the buffers of all ranks or of no rank are registered. Buffers must be deregistered before their pages
/// are freed. Whole blocks (device/cuda/whole_blocks.h) are such pieces. Their sizes are those of buckets, the same on
/// all ranks.
///
/// The first operation that uses a block registers it. It stays registered until it is freed or the communicator ends.
/// Thread-safe, because any thread may free blocks.
class Registered : public std::enable_shared_from_this<Registered> {
 public:
  /// Makes the object. Returns null if the rank's options turn registration off.
  static std::shared_ptr<Registered> make(CardRank& card, ncclComm_t communicator, const std::string& name);

  /// Registers the tensors' blocks before an operation on them, if all are whole blocks. `caller` is a stream of their
  /// context. The operation is launched on `stream` while the returned lock is held, because NCCL takes one call per
  /// communicator at a time.
  [[nodiscard]] std::unique_lock<std::mutex> use(std::span<const Tensor* const> tensors, Stream& caller,
                                                 const std::shared_ptr<TrafficStream>& stream);
  /// Ends registration with the communicator: waits for its operations and deregisters all buffers.
  void end();
  /// Drops all buffers, because the communicator is aborted and NCCL deregisters them.
  void forget();

 private:
  Registered(CardRank& card, ncclComm_t communicator, const std::string& name)
      : card_(card), communicator_(communicator), name_(name) {}
  void add(device::cuda::Blocks& blocks, const device::cuda::Blocks::Extent& block);
  void remove(const void* block);
  void deregister(void* handle);

  CardRank& card_;  // not used after end() or forget()
  const ncclComm_t communicator_;
  const std::string name_;
  std::mutex mutex_;
  std::map<const void*, void*> handles_;  // by address of the block
  std::shared_ptr<TrafficStream> stream_;
};

}  // namespace hexad::comm::nccl
