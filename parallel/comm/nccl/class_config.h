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
  bool across_nodes = false;  // uses other links than inside a node
  auto operator<=>(const StreamKind&) const = default;
};

/// Returns the configuration of the communicators of a group's collectives. A network's links need few thread blocks;
/// links inside a node need more. All operations that a layout has in flight fit on the card together. So no operation
/// must wait for blocks of another operation that itself waits for a peer. They take at most 132 blocks, with the
/// messages: one block on each multiprocessor of an H100.
CommunicatorConfig config_of(StreamKind kind);

/// Returns the configuration of a communicator of messages. `channels`: largest number of channels of any rank of the
/// group, to and from others. A message takes 8 blocks inside a node and 4 across nodes. The messages of a rank in a
/// group together take at most 32, as far as two each allow.
CommunicatorConfig message_config(bool across_nodes, int channels);

/// Returns the number of multiprocessors that products lose to this traffic. NCCL launches blocks in clusters of four
/// if their number is a multiple of four. Other blocks are placed singly, and each makes a second multiprocessor
/// unusable: products take pairs within a part of the card (a GPC). Up to eight such blocks count twice; more of them
/// are assumed to share pairs. Messages count as those inside a node, which have more blocks, with a channel for each
/// operation.
int multiprocessors_of(std::span<const TrafficBeside> traffic);

/// Returns CUDA's priority of such a stream, between `least` and `greatest` (which is the smaller number). Streams have
/// the order of the classes' priorities, within the number of levels of CUDA. An urgent stream is one level above its
/// class.
int stream_priority(StreamKind kind, const Priorities& priorities, int least, int greatest);

}  // namespace hexad::comm::nccl
