// Ranks that are threads of one process but communicate like separate processes. Each rank has a communication engine
// with its own plans, queues and guards. A ThreadNetwork replaces MPI.
#pragma once

#include "parallel/comm/engine.h"
#include "parallel/comm/process_group.h"

namespace hexad::comm {

struct EngineRanks {
  std::vector<int> node_of_rank{};         // node of each rank; empty: all ranks are on one node
  std::optional<uint64_t> adversary = {};  // seed of ThreadNetwork's adversary; nullopt: no adversary
  bool takes_cards = false;                // value of Topology::takes_cards
  CommEngine::Options engine{};
};

/// Runs `body` on each of `n` ranks. Operations of the other ranks do not hang, but throw Error(peer_lost), if a rank
/// throws. Operations that wait for a rank throw this error if the rank ends. Rethrows the first exception after all
/// ranks have ended.
void with_engine_ranks(int n, const std::function<void(const ProcessGroup& world)>& body,
                       const EngineRanks& options = {});

}  // namespace hexad::comm
