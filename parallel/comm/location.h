// Assignment of the ranks of a job to nodes, from the locations that the ranks report.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "parallel/comm/transport.h"

namespace hexad::comm {

/// Location of a rank. Its size is fixed, because all ranks gather the locations as bytes.
struct Location {
  std::array<char, 256> node{};  // value of HEXAD_NODE or, if it is not set, name of the host
  // Lowest rank that shares memory with this rank; -1 if HEXAD_NODE is set. Distinguishes hosts of the same name.
  int leader = -1;
  bool operator==(const Location&) const = default;
  void set(std::string_view name) { name.substr(0, node.size() - 1).copy(node.data(), node.size() - 1); }
};

/// Returns the topology of a job for rank `rank`, without process ids and takes_cards. `locations` has the location of
/// each rank. Nodes are numbered in the order of their lowest ranks. Takes O(P log(nodes)) time for P ranks.
Topology topology_of(std::span<const Location> locations, int rank);

}  // namespace hexad::comm
