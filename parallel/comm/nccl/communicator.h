// A rank's side of an NCCL communicator.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "parallel/comm/nccl/registered.h"

namespace hexad::comm::nccl {

/// Collective: all ranks of the communicator make, split and destroy it at the same places of their programs.
class Communicator {
 public:
  Communicator(CardRank& card, const ncclUniqueId& id, int size, int rank, const CommunicatorConfig& config);
  /// Waits for operations that other ranks still launch. Aborts instead if an exception passes or something has failed.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// Ranks that give the same colour, ordered by `key`; null where `color` is none. Nothing is in flight on this one.
  std::unique_ptr<Communicator> split(std::optional<int> color, int key, const CommunicatorConfig& config) const;
  ncclComm_t handle() const { return handle_; }
  /// Null where nothing is registered.
  const std::shared_ptr<Registered>& registered() const { return registered_; }

 private:
  using Name = std::unique_ptr<const std::string>;  // NCCL keeps the pointer to its text
  Communicator(CardRank& card, ncclComm_t handle, Name name);

  CardRank& card_;
  const Name name_;
  const int exceptions_;  // in flight when this was made
  ncclComm_t handle_ = nullptr;
  std::shared_ptr<Registered> registered_;
};

}  // namespace hexad::comm::nccl
