// Memory that NCCL takes on a rank's card to connect it with the other ranks of a communicator.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "parallel/comm/nccl/class_config.h"
#include "parallel/comm/routes.h"
#include "parallel/comm/uses.h"

namespace hexad::comm::nccl {

/// Sizes of NCCL's buffers in bytes, with the defaults of NCCL 2.28. `page` is the unit in which the driver gives
/// memory that other processes can open.
struct BufferSizes {
  // A side that receives, on one channel from one peer, has a buffer for each protocol (init.cc, device.h), and flags.
  int64_t simple = int64_t{4} << 20;
  int64_t low_latency_128 = int64_t{120} * 640 * 8 * 8;
  int64_t low_latency = int64_t{8} * 512 * 16 * 8;
  int64_t flags = 4096;
  int64_t page = int64_t{2} << 20;
  int64_t multicast = int64_t{1} << 20;  // NVLink SHARP: a rank's part on a channel, in one direction (nvls.cc)
  int64_t network = int64_t{16} << 17;   // exchanges across nodes: a channel, in one direction (net.cc)
};

/// Ranks of a communicator, and the channels over which they send.
struct CommunicatorShape {
  int ranks = 1;
  int ranks_here = 1;  // ranks on this rank's node, itself included
  int channels = 1;
};
/// Returns the shape of communicators for groups of this kind.
CommunicatorShape shape_of(StreamKind kind, int ranks, int ranks_here);

/// Returns the bytes that NCCL takes on the card of one rank once all `uses` have been connected. Valid for cards on
/// NVSwitches, and computed like NCCL 2.28:
///
/// - Rings (all sums, shares, gathers) receive from one peer and send to another on each channel. The trees of sums use
///   the same pairs in both directions.
/// - Sums also have the buffers of NVLink SHARP.
/// - Exchanges receive from and send to every peer of the node on each channel, or on two channels if there are several
///   nodes. All peers on other nodes together have one buffer for each direction.
///
/// Does not include messages, which have separate communicators, or the few MB of a communicator without connections.
int64_t connection_bytes(const CommunicatorShape& shape, Uses uses, const BufferSizes& sizes = {});

/// Returns the bytes that NCCL takes on the card of rank `rank` for messages on the routes in `routes` that begin or
/// end at this rank. Each route has a communicator of two ranks (message_config). `most_of_a_rank`:
/// most_routes_of_a_rank() of all routes of the group. node_of_rank: the node of each rank of the group.
int64_t message_bytes(std::span<const Route> routes, int most_of_a_rank, int rank, const std::vector<int>& node_of_rank,
                      const BufferSizes& sizes = {});

}  // namespace hexad::comm::nccl
