// Dependencies between actions, and messages between ranks. Every rank can derive them from the schedule.
#pragma once

#include <compare>
#include <optional>

#include "parallel/pp/schedule.h"

namespace hexad::pp {

/// A tensor that one virtual stage sends to another: the input of a forward, or the gradient of the output for a
/// backward. The destination identifies the message.
struct Message {
  bool forward;
  int stage;  // virtual stage that needs the tensor
  int micro;
  auto operator<=>(const Message&) const = default;
};

/// Returns the message that `action` of `rank` needs from another virtual stage. Returns nullopt if the action needs
/// none: at the ends of the model, and for weight gradients.
std::optional<Message> needed(const StageMap& stages, int rank, const Action& action);
/// Returns the message that `action` of `rank` produces for another virtual stage; nullopt if there is none.
std::optional<Message> made(const StageMap& stages, int rank, const Action& action);

/// The next two functions return the rank that sends a message, and the rank that receives it.
int sender(const StageMap& stages, const Message& message);
int receiver(const StageMap& stages, const Message& message);

}  // namespace hexad::pp
