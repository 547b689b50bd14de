#include "tools/check_cluster/meetings.h"

#include <algorithm>

namespace hexad::check_cluster {

int64_t rounds_of(int64_t count) {
  if (count < 2) return 0;
  return count % 2 == 0 ? count - 1 : count;
}

std::optional<int64_t> opponent_of(int64_t round, int64_t player, int64_t count) {
  const int64_t rounds =
      rounds_of(count);       // odd; with an even count, the last player has a fixed seat and all other players rotate
  const auto resting = [&] {  // the player that is paired with itself
    const int64_t half = round % 2 == 0 ? round / 2 : (round + rounds) / 2;
    return half % rounds;
  }();
  if (player == rounds) return resting;
  if (player != resting) return (round + rounds - player) % rounds;
  return count % 2 == 0 ? std::optional(rounds) : std::nullopt;
}

namespace {

int64_t max_ranks_of_a_node(const comm::NodeGrid& grid) {
  size_t most = 0;
  for (int node = 0; node < grid.nodes(); ++node) most = std::max(most, grid.ranks(node).size());
  return static_cast<int64_t>(most);
}

// Returns the number of rounds in which the ranks of each node meet each other.
int64_t rounds_inside(const comm::NodeGrid& grid) {
  int64_t rounds = 0;
  for (int64_t count = 2; count <= max_ranks_of_a_node(grid); ++count) rounds = std::max(rounds, rounds_of(count));
  return rounds;
}

// Adds this rank's meetings in `played` rounds, spread evenly over the rounds inside nodes.
void meet_inside(std::vector<int>& meetings, const comm::NodeGrid& grid, int rank, int64_t played) {
  const int64_t rounds = rounds_inside(grid);
  const std::vector<int>& own = grid.ranks(grid.node(rank));
  const auto count = static_cast<int64_t>(own.size());
  for (int64_t i = 0; i < played; ++i) {
    const int64_t round = i * rounds / played;
    const auto met = round < rounds_of(count) ? opponent_of(round, grid.place(rank), count) : std::nullopt;
    meetings.push_back(met ? own[*met] : -1);
  }
}

void meet_across(std::vector<int>& meetings, const comm::NodeGrid& grid, int rank, int place) {
  std::vector<int> players;  // ranks whose index in their node is `place`, in the order of the nodes
  for (int node = 0; node < grid.nodes(); ++node)
    if (place < static_cast<int>(grid.ranks(node).size())) players.push_back(grid.rank(node, place));
  const auto count = static_cast<int64_t>(players.size());
  const auto own = std::find(players.begin(), players.end(), rank);
  const int64_t rounds = rounds_of(count), played = std::min(rounds, max_nodes_of_all_pairs);
  for (int64_t i = 0; i < played; ++i) {
    std::optional<int64_t> met;
    if (own != players.end()) met = opponent_of(i * rounds / played, own - players.begin(), count);
    meetings.push_back(met ? players[*met] : -1);
  }
}

}  // namespace

std::vector<int> meetings_of(const comm::NodeGrid& grid, int rank, int64_t max_rounds) {
  const int64_t most = std::max(max_rounds, least_rounds);
  // Maximum number of rounds in which the ranks with the same index in their nodes meet.
  const int64_t across = std::min(rounds_of(grid.nodes()), max_nodes_of_all_pairs);
  const int64_t places = grid.nodes() > max_nodes_of_all_pairs ? 1 : std::max<int64_t>(1, max_ranks_of_a_node(grid));
  const int64_t inside = std::min(rounds_inside(grid), most - across);
  const int64_t played = across == 0 ? 0 : std::clamp<int64_t>((most - inside) / across, 1, places);
  std::vector<int> meetings;
  meet_inside(meetings, grid, rank, inside);
  for (int64_t i = 0; i < played; ++i) meet_across(meetings, grid, rank, static_cast<int>(i * places / played));
  return meetings;
}

}  // namespace hexad::check_cluster
