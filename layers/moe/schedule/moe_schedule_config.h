// The recipe's section `schedule.moe`: choices that are made, and choices that are left to the program.
#pragma once

#include <string>
#include <vector>

#include "layers/moe/schedule/moe_schedule.h"

namespace hexad::config {
class Visitor;
}

namespace hexad::moe {

/// An unset choice is the program's (`auto`): tools/plan/schedule_choice.h.
struct MoeScheduleConfig : MoeChoices<std::optional> {
  double trial_share = 0.03;

  /// Returns the choices that are made; open ones have the values that apply until they are made.
  MoeSchedule settled() const;
  /// True if the program has anything to choose. An open ESP exchange is chosen with the rest, never by itself.
  bool open() const { return !open_keys().empty(); }
  /// The keys that are left to it.
  std::vector<std::string_view> open_keys() const;
  /// Makes all choices as in `schedule`.
  void choose(const MoeSchedule& schedule);

  void fields(config::Visitor& v);
};

}  // namespace hexad::moe
