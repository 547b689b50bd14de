// Dependencies of actions, and the messages between ranks. All follow from the schedule, so every rank can derive them.
#pragma once

#include <compare>
#include <optional>
#include <vector>

#include "parallel/pp/schedule.h"

namespace hexad::pp {

/// A tensor between two virtual stages, named by its destination: the input of a forward, or the output's gradient of a
/// backward.
struct Message {
  bool forward;
  int stage;  // virtual stage that needs it
  int micro;
  auto operator<=>(const Message&) const = default;
};

/// Returns the message that `action` of `rank` needs from another virtual stage; none at the ends of the model and for
/// weight gradients.
std::optional<Message> needed(const StageMap& stages, int rank, const Action& action);
/// Returns the message that the action makes for another virtual stage, if any.
std::optional<Message> made(const StageMap& stages, int rank, const Action& action);

/// Returns the messages from rank `from` to rank `to`, in order. Empty if they are the same rank, because nothing is
/// sent.
std::vector<Message> sent(const Schedule& schedule, int from, int to);

}  // namespace hexad::pp
