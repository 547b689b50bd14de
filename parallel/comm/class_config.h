// Card and network resources that each class of traffic uses.
#pragma once

#include <compare>
#include <optional>
#include <span>
#include <string>

#include "parallel/comm/device_group.h"
#include "parallel/comm/traffic.h"

namespace hexad::comm::nccl {

/// Configuration of a communicator.
struct CommunicatorConfig {
  std::string name{};
  int min_ctas = 1, max_ctas = 1;  // minimum and maximum number of thread blocks that each operation occupies
  std::optional<int> network_class{};
};

/// Key of the stream on which a group's collectives run. Groups with equal keys share a stream.
struct StreamKind {
  TrafficClass traffic;
  Urgency urgency = Urgency::ordinary;
  bool across_nodes = false;  // true if the group uses links between nodes
  auto operator<=>(const StreamKind&) const = default;
};

/// Maximum number of thread blocks of an operation.
inline constexpr int ctas_limit = 16;

/// Returns the configuration of communicators for the collectives of a group. Network links need few thread blocks;
/// links inside a node need more. Control traffic consists of small messages, for which one block is enough. Layouts
/// with many groups need a lower maximum (max_ctas_of()).
CommunicatorConfig config_of(StreamKind kind);

/// Returns the configuration of a communicator for messages. `channels` is the largest number of channels that any rank
/// of the group has, to and from other ranks. The maximum number of blocks of an operation is 2 to 8 inside a node, and
/// 2 to 4 across nodes. As far as these limits allow, all messages of a rank in a group together occupy at most 32
/// blocks.
CommunicatorConfig message_config(bool across_nodes, int channels);

/// Returns the maximum number of thread blocks of all operations of `groups` together if no operation has more than
/// `limit` blocks. Collectives of equal StreamKind run one after the other, and count once.
int blocks_in_flight(std::span<const GroupTraffic> groups, int limit);
/// Returns the largest of the limits 16, 12, 8, 4 and 2 with which `groups` have at most `multiprocessors` blocks in
/// flight (blocks_in_flight()). `multiprocessors` is the number of multiprocessors of the card. With more blocks, an
/// operation could wait for blocks of another operation while that operation waits for a peer. Returns 1 if even the
/// limit 2 is too large.
int max_ctas_of(std::span<const GroupTraffic> groups, int multiprocessors);

/// Returns the number of multiprocessors that matrix products cannot use because of this traffic. `limit` is the
/// maximum number of blocks of an operation. NCCL launches the blocks of an operation in clusters of four if their
/// number is a multiple of four. In all other cases, NCCL launches single blocks. A single block makes a second
/// multiprocessor unusable, because products use pairs of multiprocessors within a part of the card (a GPC). Up to
/// eight single blocks count twice; all blocks beyond these eight are assumed to share pairs. Messages are assumed to
/// have one channel per operation and to remain inside a node, where they need more blocks.
int multiprocessors_of(std::span<const TrafficBeside> traffic, int limit = ctas_limit);

/// Returns CUDA's priority for a stream of this kind, from `least` to `greatest`. In CUDA, smaller numbers are higher
/// priorities. The priorities of the classes determine the order of the streams, as far as CUDA has enough levels. With
/// Priorities::by_need, an urgent stream is one level above its class.
int stream_priority(StreamKind kind, const Priorities& priorities, int least, int greatest);

}  // namespace hexad::comm::nccl
