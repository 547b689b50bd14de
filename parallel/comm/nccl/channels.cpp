#include "parallel/comm/nccl/channels.h"

#include <algorithm>

#include "parallel/comm/nccl/connection_bytes.h"
#include "parallel/comm/nccl/message_pieces.h"

namespace hexad::comm::nccl {

using namespace base;

namespace {

// Sends or receives one byte, to connect the pair. The first message of a pair blocks the host until the other side
// launches its part. In later messages, ranks may send or receive first. Here all ranks use the same order, so none
// blocks forever.
void connect(CardRank& card, const Channel& channel, TrafficClass traffic, bool sends) {
  const Library& nccl = card.library();
  const Watch::HostCall call(card.watch(), "connecting a pair of ranks for messages");
  const ncclComm_t communicator = channel.communicator->handle();
  const cudaStream_t stream = channel.stream->handle();
  const CommunicatorShape pair = shape_of({.traffic = traffic, .messages = true}, 2, 2);
  channel.communicator->take_memory(connection_bytes(pair, Use::exchanges), [&] {
    if (sends)
      check(nccl, nccl.send(card.scratch(), 1, ncclUint8, channel.peer, communicator, stream), "connecting");
    else
      check(nccl, nccl.receive(card.scratch() + 1, 1, ncclUint8, channel.peer, communicator, stream), "connecting");
  });
}

}  // namespace

Channels::Channels(CardRank& card, const Communicator& group, const std::string& name, TrafficClass traffic, int rank,
                   int size)
    : to_(size), from_(size) {
  const StreamKind kind{.traffic = traffic, .messages = true};
  all_.reserve(2 * static_cast<size_t>(size));  // to_ and from_ point into it
  for (int round = 0; round < rounds_of(size); ++round)
    for (const bool upwards : {true, false}) {  // from the lower to the higher rank of each pair
      const std::optional<int> peer = partner_of(rank, round, size);
      const int lower = peer ? std::min(rank, *peer) : 0;
      auto communicator = group.split(peer ? std::optional(lower) : std::nullopt, rank,
                                      card.config(kind, cat(name, upwards ? " up" : " down")));
      if (!peer) continue;
      all_.push_back(
          {.communicator = std::move(communicator), .peer = rank == lower ? 1 : 0, .stream = card.make_stream(kind)});
      const bool sends = upwards == (rank == lower);
      (sends ? to_ : from_)[*peer] = &all_.back();
      connect(card, all_.back(), traffic, sends);
    }
}

}  // namespace hexad::comm::nccl
