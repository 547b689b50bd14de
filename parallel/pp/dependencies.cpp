#include "parallel/pp/dependencies.h"

namespace hexad::pp {

std::optional<Message> needed(const StageMap& stages, int rank, const Action& action) {
  const int stage = stages.stage(rank, action.chunk);
  if (action.is_forward() && stage > 0) return Message{true, stage, action.micro};
  if (action.is_backward() && stage < stages.last()) return Message{false, stage, action.micro};
  return {};
}

std::optional<Message> made(const StageMap& stages, int rank, const Action& action) {
  const int stage = stages.stage(rank, action.chunk);
  if (action.is_forward() && stage < stages.last()) return Message{true, stage + 1, action.micro};
  if (action.is_backward() && stage > 0) return Message{false, stage - 1, action.micro};
  return {};
}

std::vector<Message> sent(const Schedule& schedule, int from, int to) {
  std::vector<Message> messages;
  if (from == to) return messages;
  for (const Action& action : schedule.ranks[from])
    if (const auto message = made(schedule.stages, from, action))
      if (schedule.stages.place(message->stage).rank == to) messages.push_back(*message);
  return messages;
}

}  // namespace hexad::pp
