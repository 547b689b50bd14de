// Share of the card and of the network for a class of traffic.
#pragma once

#include <compare>
#include <optional>
#include <span>
#include <string>

#include "parallel/comm/device_group.h"
#include "parallel/comm/traffic.h"

namespace hexad::comm::nccl {

/// Configuration of one communicator.
struct CommunicatorConfig {
  std::string name{};
  int min_ctas = 1, max_ctas = 1;  // thread blocks that its operations occupy
  std::optional<int> network_class{};
};

/// Key of the stream that a communicator of collectives uses. Groups with equal keys share a stream.
struct StreamKind {
  TrafficClass traffic;
  Urgency urgency = Urgency::ordinary;
  bool across_nodes = false;  // true: uses links between nodes
  auto operator<=>(const StreamKind&) const = default;
};

/// Returns the configuration of the communicators of a group's collectives. A network's links need few thread blocks;
/// links inside a node need more. All operations that a layout has in flight fit on the card together. So no operation
/// must wait for blocks of another operation that itself waits for a peer. Collectives and messages together take at
/// most 132 blocks: one block on each multiprocessor of an H100.
CommunicatorConfig config_of(StreamKind kind);

/// Returns the configuration of a communicator of messages. `channels`: largest number of channels of any rank of the
/// group, to and from others. A message takes at most 8 blocks inside a node, at most 4 across nodes, and at least 2.
/// Within these limits, all messages of a rank in a group together take at most 32 blocks.
CommunicatorConfig message_config(bool across_nodes, int channels);

/// Returns the number of multiprocessors that products lose to this traffic. NCCL launches blocks in clusters of four
/// if their number is a multiple of four. Other blocks are placed singly. Each of these makes a second multiprocessor
/// unusable, because products take pairs within a part of the card (a GPC). Up to eight such blocks count twice; more
/// of them are assumed to share pairs. Messages count like messages inside a node, which take more blocks, with one
/// channel per operation.
int multiprocessors_of(std::span<const TrafficBeside> traffic);

/// Returns CUDA's priority of a stream of this kind, between `least` and `greatest` (which is the smaller number). The
/// classes' priorities order the streams, as far as CUDA has enough levels. An urgent stream is one level above its
/// class.
int stream_priority(StreamKind kind, const Priorities& priorities, int least, int greatest);

}  // namespace hexad::comm::nccl
