// Memory of a device that the double of NCCL takes for the connections of a communicator.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "tests/support/cuda_double/nccl_clique.h"

namespace hexad::cuda_double {

/// Buffers on the device of one rank's side of a communicator. The sizes are as in NCCL 2.28 on H100s with NVSwitches.
/// Each side of each connection is an entry with its own allocation. Messages to all ranks of other nodes share one
/// buffer. Messages from all ranks of other nodes share another buffer.
class NcclBuffers {
 public:
  struct Place {
    int device, rank, channels;
    const std::vector<int>& nodes;  // node of each rank of the communicator

    int ranks() const { return static_cast<int>(nodes.size()); }
    bool is_here(int peer) const { return nodes[peer] == nodes[rank]; }
    int ranks_here() const { return static_cast<int>(std::ranges::count(nodes, nodes[rank])); }
  };
  /// True if connect() would take memory.
  bool lack(const Place& at, const std::vector<NcclCall>& calls) const;
  /// Adds the missing connections of `calls`. Adds no connection and returns false if the device has too little memory.
  bool connect(const Place& at, const std::vector<NcclCall>& calls);
  int64_t bytes() const { return bytes_; }
  /// Returns all memory to `device`.
  void free(int device);

 private:
  struct Side {
    int channel, peer;
    bool receives, of_messages;  // messages and collectives have separate connections
    bool to_node;                // true if the side sends to another node
    auto operator<=>(const Side&) const = default;
  };
  struct Wanted {
    std::set<Side> sides{};
    std::set<bool> networks{};  // buffers for messages to (false) and from (true) other nodes
    bool multicast = false;     // buffers of NVLink SHARP
  };
  static Wanted wanted_by(const Place& at, const NcclCall& call);
  Wanted missing(const Place& at, const std::vector<NcclCall>& calls) const;

  std::set<Side> sides_;
  std::set<bool> networks_;
  bool multicast_ = false;
  int64_t bytes_ = 0;
};

}  // namespace hexad::cuda_double
