// The recipe's section `schedule.moe`, in which choices may be set or left to the program (`auto`).
#pragma once

#include <string>
#include <vector>

#include "layers/moe/schedule/moe_schedule.h"

namespace hexad::config {
class Visitor;
}

namespace hexad::moe {

/// Section `schedule.moe` of a recipe. The program makes the choices that are unset or `auto`
/// (tools/plan/schedule_choice.h).
struct MoeScheduleConfig : MoeChoices<std::optional> {
  double trial_share = 0.03;
  int64_t redecide_every = 0;  // steps between re-decisions of the open choices; 0: never

  /// Returns the schedule with the choices that are set. Open choices have the values that apply until the program
  /// chooses.
  MoeSchedule settled() const;
  /// True if any choice is left to the program. Choices that a schedule may also leave unset do not count. The program
  /// chooses one of these, esp_exchange, only together with other choices.
  bool open() const { return !open_keys().empty(); }
  /// Returns the keys of the choices that are left to the program and have an effect in settled()
  /// (ChoiceFacts::chosen_in).
  std::vector<std::string_view> open_keys() const;
  /// Copies all choices from `schedule`. Sets redecide_every to 0, because nothing is left to decide.
  void choose(const MoeSchedule& schedule);
  /// Sets the choices that are unset here to their values in `schedule`. Sets redecide_every to 0. Also resets
  /// dense_rows if `gemms` was open and `schedule` does not read dense_rows.
  void choose_open(const MoeSchedule& schedule);

  void fields(config::Visitor& v);
};

}  // namespace hexad::moe
