// Channels for messages between two ranks of a group.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "parallel/comm/message_routes.h"
#include "parallel/comm/nccl/communicator.h"
#include "parallel/comm/process_group.h"

namespace hexad::comm::nccl {

/// Channel from one rank to another: a communicator of the two ranks, and a stream on each of them. Each direction has
/// its own channel, because NCCL runs the launches of a communicator one after the other. With one communicator, two
/// ranks that both send first would wait forever. Only messages of the same pair and direction are ordered.
struct Channel {
  std::unique_ptr<Communicator> communicator;
  int peer = 0;  // rank of the peer in the communicator
  std::shared_ptr<TrafficStream> stream;
};

/// Channels of one rank. They exist only for the routes that were added, because each channel needs a communicator,
/// card memory and a stream.
class Channels {
 public:
  /// Makes an object without channels. `group` is the communicator of the ProcessGroup `process_group`. `group` and
  /// `process_group` must outlive this object.
  Channels(CardRank& card, const Communicator& group, const ProcessGroup& process_group)
      : card_(card), group_(group), process_group_(process_group) {}

  /// True if add() has been called for all of these routes.
  bool has(std::span<const Route> routes) const;
  /// Makes a channel for each of `routes` that has no channel yet. `routes` are the routes of all ranks, and must be
  /// the same on all ranks. Collective over the group, which must have no operation in flight.
  void add(std::span<const Route> routes);
  /// The next two functions return the channel to or from rank `peer`. They throw std::logic_error if the route of this
  /// channel was not added.
  const Channel& to(int peer) const { return find(to_, peer, "to"); }
  const Channel& from(int peer) const { return find(from_, peer, "from"); }

 private:
  using ByPeer = std::map<int, const Channel*>;
  const Channel& find(const ByPeer& channels, int peer, std::string_view direction) const;
  CommunicatorConfig config_of(const Route& route, bool upwards) const;

  CardRank& card_;
  const Communicator& group_;
  const ProcessGroup& process_group_;
  std::set<Route> routes_;  // routes of all ranks
  // Channels of this rank, in the order in which both ranks make and destroy them.
  std::vector<std::unique_ptr<Channel>> all_;
  ByPeer to_, from_;
};

}  // namespace hexad::comm::nccl
