// Rules that decide if a schedule is legal, and the schedules to try if a recipe leaves choices open.
#pragma once

#include "layers/moe/schedule/moe_schedule_config.h"

namespace hexad::moe {

/// Returns the reasons why `schedule` is illegal at `site`, by choice; empty if it is legal.
std::vector<Refusal> refusals(const ScheduleSite& site, const MoeSchedule& schedule);

/// Returns all combinations of the values that `config` sets with all values of its open choices, legal or not, in a
/// fixed order. Of combinations that are equivalent at `site`, only one is listed. For example, `duplicates` has no
/// effect without tensor-parallel ranks.
std::vector<MoeSchedule> combinations(const MoeScheduleConfig& config, const ScheduleSite& site);

/// Returns `schedule` with the late choices of `like` (see ChoiceFacts::late).
MoeSchedule with_late_choices(MoeSchedule schedule, const MoeSchedule& like);

/// Choice that `hexad verify` varies while other choices stay fixed, and its values.
struct VariedChoice {
  std::string_view key;
  std::vector<ChoiceFacts::Varied> values;
  bool (*matters)(const ScheduleSite&);
};
/// Returns the choices that `hexad verify` varies.
std::vector<VariedChoice> varied_choices();

}  // namespace hexad::moe
