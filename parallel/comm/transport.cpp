#include "parallel/comm/transport.h"

#include "framework/base/error.h"

namespace hexad::comm {

std::string name_of(const Topology& topology, int rank) {
  const size_t r = rank;
  if (r >= topology.node_of_rank.size() || r >= topology.pid_of_rank.size()) return base::cat("rank ", rank);
  const std::string& node = topology.node_names[topology.node_of_rank[r]];
  return base::cat("rank ", rank, " (host ", node, ", pid ", topology.pid_of_rank[r], ")");
}

}  // namespace hexad::comm
