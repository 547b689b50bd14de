// Process groups over which the experts of a layer are distributed.
#pragma once

#include "parallel/comm/node_groups.h"
#include "parallel/comm/process_group.h"

namespace hexad::ep {

/// Process groups of a layer's experts. `ep` divides the experts into blocks. `etp` divides the width of each expert.
/// `experts` has the ranks of both: its rank p etp + j is rank p of `ep` and rank j of `etp`.
struct ExpertGroups {
  const comm::ProcessGroup *ep, *etp, *experts;
  /// Two levels of `ep` and of `experts`; null if the group is on one node or has one rank on each node.
  const comm::NodeGroups *ep_nodes = nullptr, *experts_nodes = nullptr;
};

}  // namespace hexad::ep
