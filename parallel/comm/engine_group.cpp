#include "parallel/comm/engine_group.h"

#include "parallel/comm/node_groups.h"
#include "parallel/comm/self_group.h"

namespace hexad::comm {
EngineGroup::EngineGroup(CommEngine& engine, TrafficClass traffic, std::string name)
    : EngineGroup(engine, {}, first_ranks(engine.topology().size), engine.topology().rank, traffic, std::move(name)) {}

EngineGroup::EngineGroup(CommEngine& engine, Communicator communicator, std::vector<int> members, int rank,
                         TrafficClass traffic, std::string name)
    : ProcessGroup(traffic, std::move(name), engine.meter(), nodes_of(members, engine.topology().node_of_rank)),
      engine_(engine),
      communicator_(communicator),
      members_(std::make_shared<const std::vector<int>>(std::move(members))),
      rank_(rank) {}

std::unique_ptr<ProcessGroup> EngineGroup::split(int color, int key, TrafficClass traffic, std::string name) const {
  return make(agree(color, key, engine_.next_communicator()), Urgency::ordinary, traffic, std::move(name));
}

std::unique_ptr<ProcessGroup> EngineGroup::subgroup(const std::vector<int>& members, TrafficClass traffic,
                                                    std::string name) const {
  return make(agree_on(members, engine_.next_communicator()), Urgency::ordinary, traffic, std::move(name));
}

std::unique_ptr<ProcessGroup> EngineGroup::urgent(std::string name) const {
  return make(agree_on(first_ranks(size()), engine_.next_communicator()), Urgency::urgent, traffic(), std::move(name));
}

std::unique_ptr<ProcessGroup> EngineGroup::duplicate(std::string name) const {
  return subgroup(first_ranks(size()), traffic(), std::move(name));
}

std::unique_ptr<ProcessGroup> EngineGroup::make(const Members& members, Urgency urgency, TrafficClass traffic,
                                                std::string name) const {
  // The number must be unused on every member. Groups of different colours can use the same number, because they have
  // no rank in common.
  const int number = static_cast<int>(members.largest);
  engine_.take_communicator(number);
  if (members.ranks.size() == 1)
    return std::make_unique<SelfGroup>(traffic, std::move(name), meter(), node_of_rank()[rank_]);
  std::vector<int> ranks;
  for (int r : members.ranks) ranks.push_back((*members_)[r]);
  return std::unique_ptr<ProcessGroup>(
      new EngineGroup(engine_, {number, urgency}, std::move(ranks), members.index, traffic, std::move(name)));
}

Event EngineGroup::start(Operation op, Stream& stream) const {
  Channel channel{.communicator = communicator_.number, .urgency = communicator_.urgency};
  if (op.is_point_to_point()) {
    channel.kind = op.kind == Operation::Kind::send ? Channel::Kind::send : Channel::Kind::receive;
    channel.peer = op.peer;
  }
  return engine_.post(channel, traffic(), name(), members_, rank_, std::move(op), stream);
}

}  // namespace hexad::comm
