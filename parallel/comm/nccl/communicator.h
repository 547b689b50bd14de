// A rank's side of an NCCL communicator.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "parallel/comm/nccl/registered.h"

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
  /// Returns the registered buffers; null if registration is off.
  const std::shared_ptr<Registered>& registered() const { return registered_; }

 private:
  using Name = std::unique_ptr<const std::string>;  // NCCL keeps the pointer to the text
  Communicator(CardRank& card, ncclComm_t handle, Name name);

  CardRank& card_;
  const Name name_;
  const int exceptions_;  // number of exceptions in flight when this object was made
  ncclComm_t handle_ = nullptr;
  std::shared_ptr<Registered> registered_;
};

}  // namespace hexad::comm::nccl
