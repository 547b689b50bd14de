// Share of the card and of the network that a class of traffic gets.
#pragma once

#include <compare>
#include <optional>
#include <string>

#include "parallel/comm/traffic.h"

namespace hexad::comm::nccl {

/// Configuration of one communicator.
struct CommunicatorConfig {
  std::string name{};
  int min_ctas = 1, max_ctas = 1;  // thread blocks that its operations take up
  std::optional<int> network_class{};
};

/// Key of the stream that a communicator uses. Groups with equal keys share a stream, except that messages have one for
/// each peer and direction.
struct StreamKind {
  TrafficClass traffic;
  Urgency urgency = Urgency::ordinary;
  bool across_nodes = false;  // other links than inside a node
  bool messages = false;
  auto operator<=>(const StreamKind&) const = default;
};

/// Few thread blocks fill a network's links, more those inside a node. What a layout has in flight at a time fits on
/// the card together (at most 132 blocks, one on each multiprocessor of an H100, with seven peers for messages), so
/// that no operation waits for the room of another that waits for a peer.
CommunicatorConfig config_of(StreamKind kind);

/// CUDA's priority of such a stream, between `least` and `greatest` (which is the smaller number): as the priorities of
/// the classes, as far as there are levels; what is urgent one level above its class.
int stream_priority(StreamKind kind, const Priorities& priorities, int least, int greatest);

}  // namespace hexad::comm::nccl
