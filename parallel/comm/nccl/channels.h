// Ways for messages between pairs of ranks of a group.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "parallel/comm/nccl/communicator.h"

namespace hexad::comm::nccl {

/// Way from one rank to another: a communicator of both and a stream on each side, so that messages are ordered against
/// those of the same pair and direction alone. (NCCL runs what is launched on one communicator one after the other: two
/// ranks that first send to each other would wait for ever.)
struct Channel {
  std::unique_ptr<Communicator> communicator;
  int peer = 0;  // the other side's rank in it
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
