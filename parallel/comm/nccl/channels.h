// Channels for messages between pairs of ranks of a group.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "parallel/comm/nccl/communicator.h"

namespace hexad::comm::nccl {

/// Channel from one rank to another: a communicator of both and a stream on each side. So messages are ordered only
/// against messages of the same pair and direction. (NCCL runs the launches of one communicator one after the other.
/// Two ranks that both send first would wait forever.)
struct Channel {
  std::unique_ptr<Communicator> communicator;
  int peer = 0;  // rank of the other side in the communicator
  std::shared_ptr<TrafficStream> stream;
};

class Channels {
 public:
  /// Makes channels to and from every other rank. Collective over the ranks of `group`, in which nothing is in flight.
  Channels(CardRank& card, const Communicator& group, const std::string& name, TrafficClass traffic, int rank,
           int size);
  const Channel& to(int peer) const { return *to_[peer]; }
  const Channel& from(int peer) const { return *from_[peer]; }

 private:
  std::vector<Channel> all_;  // in the order in which they are made and destroyed
  std::vector<const Channel*> to_, from_;
};

}  // namespace hexad::comm::nccl
