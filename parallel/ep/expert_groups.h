// The ranks over which the experts of a layer lie.
#pragma once

#include "parallel/comm/node_groups.h"
#include "parallel/comm/process_group.h"

namespace hexad::ep {

/// Experts lie in blocks over `ep`, each expert's width over `etp`, and both at
/// once (rank p etp + j of `experts` is p of `ep` and j of `etp`).
struct ExpertGroups {
  const comm::ProcessGroup *ep, *etp, *experts;
  /// The two levels of ep and of experts; null: they have none, being on one node or on nodes with one rank.
  const comm::NodeGroups *ep_nodes = nullptr, *experts_nodes = nullptr;
};

}  // namespace hexad::ep
