#include "parallel/pp/dependencies.h"

namespace hexad::pp {

std::optional<Message> needed(const StageMap& stages, int rank, const Action& action) {
  const int stage = stages.stage(rank, action.local_stage);
  if (action.is_forward() && stage > 0) return Message{true, stage, action.micro};
  if (action.is_backward() && stage < stages.last()) return Message{false, stage, action.micro};
  return {};
}

std::optional<Message> made(const StageMap& stages, int rank, const Action& action) {
  const int stage = stages.stage(rank, action.local_stage);
  if (action.is_forward() && stage < stages.last()) return Message{true, stage + 1, action.micro};
  if (action.is_backward() && stage > 0) return Message{false, stage - 1, action.micro};
  return {};
}

int sender(const StageMap& stages, const Message& message) {
  return stages.place(message.forward ? message.stage - 1 : message.stage + 1).rank;
}

int receiver(const StageMap& stages, const Message& message) { return stages.place(message.stage).rank; }

}  // namespace hexad::pp
