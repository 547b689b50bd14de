// Memory that NCCL allocates on a rank's card to connect the rank with the other ranks of a communicator.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "parallel/comm/class_config.h"
#include "parallel/comm/message_routes.h"
#include "parallel/comm/uses.h"

namespace hexad::comm::nccl {

/// Sizes of NCCL's buffers in bytes, for the default settings of NCCL 2.28. `page` is the unit in which the driver
/// allocates memory that other processes can open.
struct BufferSizes {
  // On each channel, a receiver has flags and, for each peer, one buffer per protocol (init.cc, device.h of NCCL).
  int64_t simple = int64_t{4} << 20;
  int64_t low_latency_128 = int64_t{120} * 640 * 8 * 8;
  int64_t low_latency = int64_t{8} * 512 * 16 * 8;
  int64_t flags = 4096;
  int64_t page = int64_t{2} << 20;
  int64_t multicast = int64_t{1} << 20;  // NVLink SHARP buffer of a rank, per channel and direction (nvls.cc)
  int64_t network = int64_t{16} << 17;   // buffer for other nodes, per channel and direction (net.cc)
};

/// Number of ranks of a communicator, and number of NCCL channels over which the ranks send.
struct CommunicatorShape {
  int ranks = 1;
  int ranks_here = 1;  // ranks on the node of this rank, including this rank
  int channels = 1;
};
/// Returns the shape of a communicator for a group of kind `kind`.
CommunicatorShape shape_of(StreamKind kind, int ranks, int ranks_here);

/// Returns the bytes that NCCL allocates on the card of one rank to connect the rank for `uses`. The result is valid
/// for cards that are connected by NVSwitch, and is computed as in NCCL 2.28:
///
/// - Rings (for all_reduce, reduce_scatter, all_gather and broadcast) receive from one peer and send to another peer on
///   each channel. The trees of sums use the same pairs in both directions.
/// - Use::sums also needs the buffers of NVLink SHARP if a node has several ranks.
/// - Exchanges receive from and send to every peer of the node on each channel, or on at most two channels if there are
///   several nodes. All peers on other nodes together have one buffer for each direction.
///
/// Excludes messages, which have separate communicators, and the few MB that every communicator needs.
int64_t connection_bytes(const CommunicatorShape& shape, Uses uses, const BufferSizes& sizes = {});

/// Returns the bytes that NCCL allocates for messages on the card of rank `rank`. Counts only the routes in `routes`
/// that begin or end at this rank. Each route has a communicator of two ranks (message_config). `max_routes_per_rank`
/// is max_routes_per_rank() of all routes of the group. `node_of_rank` is the node of each rank of the group.
int64_t message_bytes(std::span<const Route> routes, int max_routes_per_rank, int rank,
                      const std::vector<int>& node_of_rank, const BufferSizes& sizes = {});

}  // namespace hexad::comm::nccl
