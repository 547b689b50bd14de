// Channels for messages between two ranks of a group.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "parallel/comm/nccl/communicator.h"
#include "parallel/comm/process_group.h"
#include "parallel/comm/routes.h"

namespace hexad::comm::nccl {

/// Channel from one rank to another: a communicator of the two ranks, and a stream on each side. A message is therefore
/// ordered only relative to messages of the same pair and direction. (NCCL runs the launches of one communicator one
/// after the other, so two ranks that both send first would wait forever.)
struct Channel {
  std::unique_ptr<Communicator> communicator;
  int peer = 0;  // the other rank's number in the communicator
  std::shared_ptr<TrafficStream> stream;
};

/// Channels of one rank. Each needs a communicator, memory of the card and a stream, so channels exist only for the
/// routes that are used.
class Channels {
 public:
  /// Makes an object without channels. `group` is the communicator of the group `its`. Both must outlive this object.
  Channels(CardRank& card, const Communicator& group, const ProcessGroup& its)
      : card_(card), group_(group), its_(its) {}

  /// True if add() has been called for all of these routes.
  bool has(std::span<const Route> routes) const;
  /// Makes a channel for each of `routes` that has none. `routes` are the routes of all ranks, and must be the same on
  /// all ranks. Collective over the group, which must have nothing in flight.
  void add(std::span<const Route> routes);
  /// Return the channel to or from a rank. Throw std::logic_error if its route was not added.
  const Channel& to(int peer) const { return find(to_, peer, "to"); }
  const Channel& from(int peer) const { return find(from_, peer, "from"); }

 private:
  using ByPeer = std::map<int, const Channel*>;
  const Channel& find(const ByPeer& channels, int peer, std::string_view direction) const;
  CommunicatorConfig config_of(const Route& route, bool upwards) const;

  CardRank& card_;
  const Communicator& group_;
  const ProcessGroup& its_;
  std::set<Route> routes_;  // routes of all ranks
  std::vector<std::unique_ptr<Channel>>
      all_;  // channels of this rank; the ranks make and destroy them together, in this order
  ByPeer to_, from_;
};

}  // namespace hexad::comm::nccl
