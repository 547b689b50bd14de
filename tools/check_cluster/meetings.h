// Order in which pairs of ranks exchange messages.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "parallel/comm/node_groups.h"

namespace hexad::check_cluster {

/// Maximum number of nodes for which all pairs of nodes meet. On larger clusters, each node meets at most this number
/// of other nodes.
inline constexpr int64_t max_nodes_of_all_pairs = 64;

/// Smallest effective value of `max_rounds` in meetings_of(). This number of rounds suffices for all pairs of 64 nodes
/// to meet through the ranks of one index. The remaining rounds suffice for a sample of the pairs inside nodes.
inline constexpr int64_t least_rounds = 2 * max_nodes_of_all_pairs;

/// Returns the number of rounds in which each of `count` players meets every other player once.
int64_t rounds_of(int64_t count);
/// Returns the player that `player` meets in `round`; nullopt if `player` pauses. The pairs of a round are disjoint.
std::optional<int64_t> opponent_of(int64_t round, int64_t player, int64_t count);

/// Returns the rank that `rank` meets in each round, or -1 for rounds in which `rank` pauses. All ranks have the same
/// number of rounds. First, the ranks of each node meet each other. Then, ranks with the same index on two nodes meet.
/// Each index has its own rounds, so that no two pairs share the link of a node. With more than max_nodes_of_all_pairs
/// nodes, only the first ranks of the nodes meet ranks of other nodes, in a sample of the rounds.
///
/// There are at most max(`max_rounds`, least_rounds) rounds. If more rounds are needed, only ranks with evenly spaced
/// indices meet ranks of other nodes. The rounds inside nodes may leave too few rounds even for one index. In this
/// case, the ranks of a node also meet only in a sample of their rounds.
std::vector<int> meetings_of(const comm::NodeGrid& grid, int rank, int64_t max_rounds = INT64_MAX);

}  // namespace hexad::check_cluster
