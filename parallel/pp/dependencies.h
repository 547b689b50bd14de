// What an action waits for, and what ranks send each other. Everything follows from the schedule, so all ranks know it.
#pragma once

#include <compare>
#include <optional>
#include <vector>

#include "parallel/pp/schedule.h"

namespace hexad::pp {

/// A tensor between two virtual stages, named by who needs it: the input of a forward, or the output's gradient of a
/// backward.
struct Message {
  bool forward;
  int stage;  // virtual stage that needs it
  int micro;
  auto operator<=>(const Message&) const = default;
};

/// What `action` of `rank` needs of another virtual stage; none at the ends of the model and for weight gradients.
std::optional<Message> needed(const StageMap& stages, int rank, const Action& action);
/// What it makes for another virtual stage.
std::optional<Message> made(const StageMap& stages, int rank, const Action& action);

/// What `from` sends to `to`, in order. Empty when they are the same rank: nothing is sent.
std::vector<Message> sent(const Schedule& schedule, int from, int to);

}  // namespace hexad::pp
