// One rank's part of an NCCL communicator.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "parallel/comm/nccl/registered.h"
#include "parallel/comm/uses.h"

namespace hexad::comm::nccl {

/// An NCCL communicator. All ranks must make, split and destroy it at the same points in their programs.
class Communicator {
 public:
  Communicator(CardRank& card, const ncclUniqueId& id, int size, int rank, const CommunicatorConfig& config);
  /// Waits until the other ranks have launched their parts of all operations. Aborts the communicator instead if an
  /// exception propagates or an operation has failed.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// Splits the communicator. Ranks with the same `color` form a new communicator, ordered by `key`. Returns null if
  /// `color` is empty. No operation may be in flight on this communicator.
  std::unique_ptr<Communicator> split(std::optional<int> color, int key, const CommunicatorConfig& config) const;
  ncclComm_t handle() const { return handle_; }
  /// Calls `take`, in which NCCL allocates about `expected` bytes of card memory for this communicator, and counts the
  /// allocated bytes (CardRank::memory_taken).
  void take_memory(int64_t expected, const std::function<void()>& take) {
    bytes_ += card_.memory_taken(*name_, expected, take);
  }
  /// Returns the kinds of operations for which the ranks are connected.
  Uses& connected() { return connected_; }
  /// Returns the registered buffers; null if registration is off.
  const std::shared_ptr<Registered>& registered() const { return registered_; }

 private:
  void end();
  using Name = std::unique_ptr<const std::string>;  // on the heap, because NCCL keeps the address of the text
  Communicator(CardRank& card, ncclComm_t handle, Name name, int64_t bytes);

  CardRank& card_;
  const Name name_;
  const int exceptions_;  // number of exceptions in flight when this object was constructed
  ncclComm_t handle_ = nullptr;
  int64_t bytes_ = 0;  // bytes of card memory that this communicator occupies
  Uses connected_;
  std::shared_ptr<Registered> registered_;
};

}  // namespace hexad::comm::nccl
