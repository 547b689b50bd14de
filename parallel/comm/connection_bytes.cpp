#include "parallel/comm/connection_bytes.h"

#include <algorithm>
#include <bit>

namespace hexad::comm::nccl {
namespace {

int64_t round_up(int64_t bytes, int64_t step) { return (bytes + step - 1) / step * step; }

// Bytes of pages that a connection occupies on one channel, on the receiver and on the sender.
struct Connection {
  explicit Connection(const BufferSizes& s)
      : receives(round_up(s.simple + s.low_latency_128 + s.low_latency + s.flags, s.page)),
        sends(round_up(s.flags, s.page)),
        sends_to_node(round_up(s.simple + s.low_latency_128, s.page)) {}
  int64_t both() const { return receives + sends; }
  const int64_t receives, sends, sends_to_node;
};

// Returns the bytes of the rings on the rank that needs the most. On each channel, a ring goes through all nodes, and
// leaves a node at one of its ranks. In the opposite direction, the ring leaves the node at another rank if the node
// has several ranks. The ranks take turns, channel by channel.
int64_t ring_bytes(const CommunicatorShape& c, int64_t directions, const Connection& one) {
  const int64_t bytes = directions * c.channels * one.both();
  if (c.ranks == c.ranks_here) return bytes;
  const int64_t turns = c.channels / c.ranks_here, rest = c.channels % c.ranks_here;
  const int64_t leaving = directions * turns + std::min(rest, directions);
  return bytes + leaving * (one.sends_to_node - one.sends);
}

// Returns the number of channels over which a rank sends to a peer: `channels`, rounded up to a power of two.
int64_t used_channels(int channels) { return std::bit_ceil(static_cast<unsigned>(channels)); }

int64_t exchange_bytes(const CommunicatorShape& c, const BufferSizes& sizes, const Connection& one) {
  const int64_t used = used_channels(c.channels), others = c.ranks_here - 1;
  if (c.ranks == c.ranks_here) return used * others * one.both();
  return std::min<int64_t>(used, 2) * others * one.both() + 2 * round_up(used * sizes.network, sizes.page);
}

}  // namespace

CommunicatorShape shape_of(StreamKind kind, int ranks, int ranks_here) {
  return {.ranks = ranks, .ranks_here = ranks_here, .channels = config_of(kind).max_ctas};
}

int64_t connection_bytes(const CommunicatorShape& c, Uses uses, const BufferSizes& sizes) {
  if (c.ranks == 1) return 0;
  const Connection one(sizes);
  const bool trees = uses.has(Use::sums) || uses.has(Use::small_sums) || uses.has(Use::counts);
  int64_t bytes = 0;
  if (trees || uses.has(Use::shares) || uses.has(Use::gathers))
    bytes += ring_bytes(c, trees && c.ranks > 2 ? 2 : 1, one);
  if (uses.has(Use::sums) && c.ranks_here > 1)
    bytes += round_up(int64_t{2} * c.channels * c.ranks_here * sizes.multicast, sizes.page);
  if (uses.has(Use::exchanges)) bytes += exchange_bytes(c, sizes, one);
  return bytes;
}

int64_t message_bytes(std::span<const Route> routes, int max_routes_per_rank, int rank,
                      const std::vector<int>& node_of_rank, const BufferSizes& sizes) {
  const Connection one(sizes);
  int64_t bytes = 0;
  for (const Route& route : routes) {
    if (route.from != rank && route.to != rank) continue;
    const bool across_nodes = node_of_rank[route.from] != node_of_rank[route.to];
    const int64_t used = used_channels(message_config(across_nodes, max_routes_per_rank).max_ctas);
    bytes += across_nodes ? round_up(used * sizes.network, sizes.page)
                          : used * (route.to == rank ? one.receives : one.sends);
  }
  return bytes;
}

}  // namespace hexad::comm::nccl
