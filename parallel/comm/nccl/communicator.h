// A rank's side of an NCCL communicator.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "parallel/comm/nccl/registered.h"
#include "parallel/comm/uses.h"

namespace hexad::comm::nccl {

/// Communicator of NCCL. All ranks make, split and destroy it at the same places in their programs.
class Communicator {
 public:
  Communicator(CardRank& card, const ncclUniqueId& id, int size, int rank, const CommunicatorConfig& config);
  /// Waits for operations that other ranks still launch. Aborts instead if an exception propagates or an operation has
  /// failed.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// Splits the communicator. Ranks that give the same colour form a new one, ordered by `key`. Returns null if `color`
  /// is empty. Nothing may be in flight on this communicator.
  std::unique_ptr<Communicator> split(std::optional<int> color, int key, const CommunicatorConfig& config) const;
  ncclComm_t handle() const { return handle_; }
  /// Runs `take`, in which NCCL takes about `expected` bytes of the card's memory for this communicator, and counts the
  /// bytes taken (CardRank::memory_taken).
  void take_memory(int64_t expected, const std::function<void()>& take) {
    bytes_ += card_.memory_taken(*name_, expected, take);
  }
  /// Returns the kinds of operations for which its ranks are connected.
  Uses& connected() { return connected_; }
  /// Returns the registered buffers; null if registration is off.
  const std::shared_ptr<Registered>& registered() const { return registered_; }

 private:
  void end();
  using Name = std::unique_ptr<const std::string>;  // NCCL keeps the pointer to the text
  Communicator(CardRank& card, ncclComm_t handle, Name name, int64_t bytes);

  CardRank& card_;
  const Name name_;
  const int exceptions_;  // number of exceptions in flight when this object was made
  ncclComm_t handle_ = nullptr;
  int64_t bytes_ = 0;  // bytes of the card's memory that this communicator takes
  Uses connected_;
  std::shared_ptr<Registered> registered_;
};

}  // namespace hexad::comm::nccl
