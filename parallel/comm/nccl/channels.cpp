#include "parallel/comm/nccl/channels.h"

#include <algorithm>
#include <array>
#include <optional>

#include "parallel/comm/connection_bytes.h"
#include "parallel/comm/nccl/message_pieces.h"

namespace hexad::comm::nccl {

using namespace base;

namespace {

// Sends or receives one byte, which makes NCCL connect the two ranks. The first message of a pair blocks the host until
// the peer also launches; later messages do not. No rank is blocked forever, because all ranks make their connections
// in the same order.
void make_connection(CardRank& card, const Channel& channel, bool sends, int64_t expected) {
  const Library& nccl = card.library();
  const Watch::HostCall call(card.watch(), "connecting a pair of ranks for messages");
  const ncclComm_t communicator = channel.communicator->handle();
  const auto stream = channel.stream->handle();
  channel.communicator->take_memory(expected, [&] {
    if (sends)
      check(nccl, nccl.send(card.scratch(), 1, ncclUint8, channel.peer, communicator, stream.get()), "connecting");
    else
      check(nccl, nccl.receive(card.scratch() + 1, 1, ncclUint8, channel.peer, communicator, stream.get()),
            "connecting");
  });
}

}  // namespace

bool Channels::has(std::span<const Route> routes) const {
  return std::ranges::all_of(routes, [&](const Route& route) { return routes_.contains(route); });
}

void Channels::add(std::span<const Route> routes) {
  const int size = process_group_.size(), rank = process_group_.rank();
  std::set<Route> added;
  for (const Route& route : routes) {
    require(route.from >= 0 && route.from < size && route.to >= 0 && route.to < size && route.from != route.to, "[",
            process_group_.name(), "] a route leads from rank ", route.from, " to rank ", route.to,
            "; expected two different ranks of a group of ", size);
    if (routes_.insert(route).second) added.insert(route);
  }
  for (int round = 0; round < rounds_of(size); ++round)
    for (const bool upwards : {true, false}) {  // true: channels from the lower to the higher rank of each pair
      const auto route_of = [&](int one) -> std::optional<Route> {
        const std::optional<int> other = partner_of(one, round, size);
        if (!other) return {};
        const auto [lower, higher] = std::minmax(one, *other);
        const Route route = upwards ? Route{lower, higher} : Route{higher, lower};
        return added.contains(route) ? std::optional(route) : std::nullopt;
      };
      bool needed = false;  // the same on all ranks, because all ranks must call split() together
      for (int r = 0; r < size; ++r) needed = needed || route_of(r);
      if (!needed) continue;
      const std::optional<Route> mine = route_of(rank);
      const auto color = mine ? std::optional(std::min(mine->from, mine->to)) : std::nullopt;
      auto communicator = group_.split(color, rank, config_of(mine.value_or(Route{rank, rank}), upwards));
      if (!mine) continue;
      const bool sends = mine->from == rank;
      const int peer = sends ? mine->to : mine->from;
      all_.push_back(
          std::make_unique<Channel>(Channel{.communicator = std::move(communicator),
                                            .peer = rank < peer ? 1 : 0,
                                            .stream = card_.make_stream({.traffic = process_group_.traffic()})}));
      (sends ? to_ : from_)[peer] = all_.back().get();
      make_connection(
          card_, *all_.back(), sends,
          message_bytes(std::array{*mine}, max_routes_per_rank(routes_), rank, process_group_.node_of_rank()));
    }
}

CommunicatorConfig Channels::config_of(const Route& route, bool upwards) const {
  const std::vector<int>& nodes = process_group_.node_of_rank();
  return card_.named(message_config(nodes[route.from] != nodes[route.to], max_routes_per_rank(routes_)),
                     process_group_.traffic(), cat(process_group_.name(), upwards ? " up" : " down"));
}

const Channel& Channels::find(const ByPeer& channels, int peer, std::string_view direction) const {
  const auto it = channels.find(peer);
  require(it != channels.end(), "[", process_group_.name(), "] rank ", process_group_.rank(), " has no channel ",
          direction, " rank ", peer,
          ": connect_routes() did not name the route; expected a call with this route before the message");
  return *it->second;
}

}  // namespace hexad::comm::nccl
