// Ranks that are threads of one process but communicate like processes. Each has a communication engine with its plans,
// queues and guards. A ThreadNetwork replaces MPI.
#pragma once

#include "parallel/comm/engine.h"
#include "parallel/comm/process_group.h"

namespace hexad::comm {

struct EngineRanks {
  std::vector<int> node_of_rank{};         // empty: one node
  std::optional<uint64_t> adversary = {};  // seed of the ThreadNetwork's adversary
  bool takes_cards = false;                // value of Topology::takes_cards
  CommEngine::Options engine{};
};

/// Runs `body` as `n` ranks. If a rank throws, or ends while other ranks still need it, their operations throw
/// Error(peer_lost) instead of hanging. Rethrows the first failure once all ranks have ended.
void with_engine_ranks(int n, const std::function<void(const ProcessGroup& world)>& body,
                       const EngineRanks& options = {});

}  // namespace hexad::comm
