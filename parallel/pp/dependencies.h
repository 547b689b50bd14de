// Dependencies of actions, and the messages between ranks. All follow from the schedule, so every rank can derive them.
#pragma once

#include <compare>
#include <optional>

#include "parallel/pp/schedule.h"

namespace hexad::pp {

/// A tensor between two virtual stages, named by its destination: the input of a forward, or the gradient of the
/// output that a backward needs.
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

/// Return the ranks that make and need a message.
int sender(const StageMap& stages, const Message& message);
int receiver(const StageMap& stages, const Message& message);

}  // namespace hexad::pp
