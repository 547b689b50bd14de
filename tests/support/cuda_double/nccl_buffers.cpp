#include "tests/support/cuda_double/nccl_buffers.h"

#include <algorithm>
#include <bit>
#include <map>

#include "tests/support/cuda_double/memory.h"

namespace hexad::cuda_double {
namespace {

constexpr int64_t kib = 1 << 10, mib = 1 << 20;

// Buffers that other processes can open are whole pages of 2 MiB.
constexpr int64_t in_pages(int64_t bytes) { return (bytes + 2 * mib - 1) / (2 * mib) * (2 * mib); }

constexpr int64_t steps = 8;  // number of parts of a buffer that are in use at the same time
// Bytes of a receiving side's buffers for the protocols LL (512 threads, 8 lines of 16 bytes per thread), LL128 (640
// threads, 120 words of 8 bytes per thread) and Simple.
constexpr int64_t receive_side = in_pages(512 * 8 * 16 * steps + 640 * 120 * 8 * steps + 4 * mib + 4 * kib);
constexpr int64_t send_side = in_pages(4 * kib);
// Bytes of a side that sends to another node, for the protocols LL128 and Simple.
constexpr int64_t send_side_to_node = in_pages(640 * 120 * 8 * steps + 4 * mib);
constexpr int64_t network_channel = 16 * 128 * kib;  // bytes of a channel in a buffer for messages between nodes
constexpr int max_channels_beside_network = 2;       // channels of messages inside a node if there are several nodes
constexpr int64_t multicast_step = 128 * kib;
// All-reduces of at least this many bytes use NVLink SHARP if a node has several ranks of the communicator.
constexpr size_t least_multicast = 1 << 20;

// Returns the number of channels for messages: a power of two.
int message_channels(const NcclBuffers::Place& at) {
  return static_cast<int>(std::bit_ceil(static_cast<unsigned>(at.channels)));
}

// Returns the order of the ranks in the ring of a channel. The ring passes through one node after the other. On each
// channel, the ring leaves a node at a different rank.
std::vector<int> ring_of(const std::vector<int>& nodes, int channel) {
  std::map<int, std::vector<int>> members;
  for (size_t rank = 0; rank < nodes.size(); ++rank) members[nodes[rank]].push_back(static_cast<int>(rank));
  std::vector<int> ring;
  for (const auto& [node, ranks] : members)
    for (size_t i = 1; i <= ranks.size(); ++i) ring.push_back(ranks[(static_cast<size_t>(channel) + i) % ranks.size()]);
  return ring;
}

}  // namespace

NcclBuffers::Wanted NcclBuffers::wanted_by(const Place& at, const NcclCall& call) {
  Wanted wanted{};
  if (call.is_message()) {
    const bool receives = call.kind == NcclKind::receive;
    if (call.peer == at.rank) return wanted;
    if (!at.is_here(call.peer)) {
      wanted.networks.insert(receives);
      return wanted;
    }
    // Every peer of the node uses all channels for messages.
    const int all = message_channels(at);
    const int channels = at.ranks_here() == at.ranks() ? all : std::min(all, max_channels_beside_network);
    for (int c = 0; c < channels; ++c) wanted.sides.insert({c, call.peer, receives, true, false});
    return wanted;
  }
  const bool sum = call.kind == NcclKind::all_reduce;
  for (int c = 0; c < at.channels; ++c) {
    const std::vector<int> ring = ring_of(at.nodes, c);
    const size_t here = static_cast<size_t>(std::ranges::find(ring, at.rank) - ring.begin());
    const int before = ring[(here + ring.size() - 1) % ring.size()], after = ring[(here + 1) % ring.size()];
    wanted.sides.insert({c, before, true, false, false});
    wanted.sides.insert({c, after, false, false, !at.is_here(after)});
    if (!sum) continue;  // only all-reduces also use the ring in the opposite direction
    wanted.sides.insert({c, after, true, false, false});
    wanted.sides.insert({c, before, false, false, !at.is_here(before)});
  }
  wanted.multicast = sum && at.ranks_here() > 1 && call.bytes() >= least_multicast;
  return wanted;
}

// Returns the buffers that the calls need and that are still missing.
NcclBuffers::Wanted NcclBuffers::missing(const Place& at, const std::vector<NcclCall>& calls) const {
  Wanted fresh{};
  if (at.ranks() == 1) return fresh;
  for (const NcclCall& call : calls) {
    const Wanted wanted = wanted_by(at, call);
    for (const Side& side : wanted.sides)
      if (!sides_.contains(side)) fresh.sides.insert(side);
    for (const bool receives : wanted.networks)
      if (!networks_.contains(receives)) fresh.networks.insert(receives);
    fresh.multicast = fresh.multicast || (wanted.multicast && !multicast_);
  }
  return fresh;
}

bool NcclBuffers::lack(const Place& at, const std::vector<NcclCall>& calls) const {
  const Wanted fresh = missing(at, calls);
  return fresh.multicast || !fresh.sides.empty() || !fresh.networks.empty();
}

bool NcclBuffers::connect(const Place& at, const std::vector<NcclCall>& calls) {
  Wanted fresh = missing(at, calls);
  int64_t more = 0;
  for (const Side& side : fresh.sides)
    more += side.receives ? receive_side : side.to_node ? send_side_to_node : send_side;
  more += static_cast<int64_t>(fresh.networks.size()) * in_pages(message_channels(at) * network_channel);
  // Each rank of a node reduces a part of the elements. For each channel and for each of two directions, this rank has
  // one buffer for each rank of its node.
  if (fresh.multicast) more += in_pages(2 * multicast_step * steps * at.channels * at.ranks_here());
  if (!charge(at.device, more)) return false;
  sides_.merge(fresh.sides);
  networks_.merge(fresh.networks);
  multicast_ = multicast_ || fresh.multicast;
  bytes_ += more;
  return true;
}

void NcclBuffers::free(int device) {
  charge(device, -bytes_);
  bytes_ = 0;
  sides_.clear();
  networks_.clear();
  multicast_ = false;
}

}  // namespace hexad::cuda_double
