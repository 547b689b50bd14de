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

/// NCCL reads and writes registered buffers without copies of its own where links and algorithms allow that. It wants
/// each to be one piece of the card's memory, and at the same place of it on all ranks; that either all ranks' buffers
/// of an operation are registered or none; and that they are deregistered before their pages go. Whole blocks
/// (device/cuda/whole_blocks.h) are such pieces. Their sizes are those of buckets, the same on all ranks.
///
/// A block is registered when an operation uses it first, and until it is freed or the communicator ends. Thread-safe:
/// blocks are freed by any thread.
class Registered : public std::enable_shared_from_this<Registered> {
 public:
  /// Null where the rank's options say that nothing is registered.
  static std::shared_ptr<Registered> make(CardRank& card, ncclComm_t communicator, const std::string& name);

  /// Registers the tensors' blocks, if all are whole, before an operation on them; `caller` is a stream of their
  /// context. The operation is launched on `stream`, under the lock: NCCL takes one call for a communicator at a time.
  [[nodiscard]] std::unique_lock<std::mutex> use(std::span<const Tensor* const> tensors, Stream& caller,
                                                 const std::shared_ptr<TrafficStream>& stream);
  /// The communicator ends: waits for its operations and deregisters all.
  void end();
  /// It is aborted, and all that is registered with it.
  void forget();

 private:
  Registered(CardRank& card, ncclComm_t communicator, const std::string& name)
      : card_(card), communicator_(communicator), name_(name) {}
  void add(device::cuda::Blocks& blocks, const device::cuda::Blocks::Extent& block);
  void remove(const void* block);
  void deregister(void* handle);

  CardRank& card_;  // gone after end() or forget()
  const ncclComm_t communicator_;
  const std::string name_;
  std::mutex mutex_;
  std::map<const void*, void*> handles_;  // by the block's begin
  std::shared_ptr<TrafficStream> stream_;
};

}  // namespace hexad::comm::nccl
