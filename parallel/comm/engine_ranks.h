// Ranks that are threads of one process and communicate as processes do: by the plans, queues and guards of a
// communication engine each, over a ThreadNetwork in the place of MPI.
#pragma once

#include "parallel/comm/engine.h"
#include "parallel/comm/process_group.h"

namespace hexad::comm {

struct EngineRanks {
  std::vector<int> node_of_rank{};         // empty: one node
  std::optional<uint64_t> adversary = {};  // seed of ThreadNetwork's
  bool takes_cards = false;                // Topology's
  CommEngine::Options engine{};
};

/// Runs `body` as `n` ranks. When a rank throws, or ends while others still need it, operations of the others throw
/// Error(peer_lost) instead of hanging; the first failure is rethrown once all have ended.
void with_engine_ranks(int n, const std::function<void(const ProcessGroup& world)>& body,
                       const EngineRanks& options = {});

}  // namespace hexad::comm
