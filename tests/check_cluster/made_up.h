// Made-up figures of a healthy cluster, in which tests plant problems.
#pragma once

#include <vector>

#include "tools/check_cluster/findings.h"
#include "tools/check_cluster/meetings.h"

namespace hexad::check_cluster {

/// Returns the reports, by rank, of a cluster whose nodes "a", "b", ... differ only slightly in their speeds and
/// clocks.
inline std::vector<RankReport> healthy_cluster(int nodes, int ranks_of_node) {
  std::vector<int> node_of_rank;
  for (int rank = 0; rank < nodes * ranks_of_node; ++rank) node_of_rank.push_back(rank / ranks_of_node);
  const comm::NodeGrid grid(node_of_rank);
  std::vector<RankReport> ranks;
  for (int rank = 0; rank < nodes * ranks_of_node; ++rank) {
    const int node = rank / ranks_of_node, place = rank % ranks_of_node;
    const double noise = 1 + 0.01 * (rank % 3);
    RankReport r;
    r.rank = rank;
    r.node = node;
    r.facts.host = std::string(1, static_cast<char>('a' + node));
    r.facts.cores = {2 * place, 2 * place + 1};
    r.facts.threads = 2;
    r.facts.version = "1.0.0";
    r.facts.binary = "f00d";
    r.facts.processor = "a processor, 2 cores";
    r.facts.kernel = "6.1";
    r.facts.libraries = {"libmpi.so.40.30.4", "libz.so.1.2.13"};
    r.facts.memory_available = int64_t{64} << 30;
    r.facts.card_error = "no driver";
    r.facts.card_exit_code = 4;
    r.product_rate = 2e10 * noise;
    r.copy_rate = 1e10 * noise;
    for (const int to : meetings_of(grid, rank)) {
      if (to < 0) continue;
      const double rate = to / ranks_of_node == node ? 5e9 : 1e9;
      r.links.push_back({.to = to, .latency = 5e-6 * noise, .seconds = 1e6 / rate * noise, .bytes = 1000000});
    }
    if (ranks_of_node > 1)
      r.collectives.push_back({.operation = "all_reduce",
                               .group = "intra",
                               .first = node * ranks_of_node,
                               .ranks = ranks_of_node,
                               .seconds = 1e-3 * noise});
    if (place == 0) {
      r.clock_offset = 1e-4 * node;
      r.clock_error = 1e-5;
      FolderFigure& folder = r.folder.emplace();
      folder.write_seconds = 0.01 * noise;
      folder.free_bytes = int64_t{1} << 40;
    }
    ranks.push_back(r);
  }
  return ranks;
}

}  // namespace hexad::check_cluster
