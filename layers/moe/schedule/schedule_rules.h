// Rules of legal schedules, and the schedules to try if the recipe leaves choices open.
#pragma once

#include "layers/moe/schedule/moe_schedule_config.h"

namespace hexad::moe {

/// Returns the reasons why `schedule` is illegal at `site`, by choice; empty if it is legal.
std::vector<Refusal> refusals(const ScheduleSite& site, const MoeSchedule& schedule);

/// Returns all combinations of the values that `config` sets and all values of its open choices, legal or not, in a
/// fixed order. Combinations that are equivalent at `site` are listed once: without tensor-parallel ranks, for example,
/// `duplicates` has no effect.
std::vector<MoeSchedule> combinations(const MoeScheduleConfig& config, const ScheduleSite& site);

/// Returns `schedule` with the late choices of `like` (see ChoiceFacts::late).
MoeSchedule with_late_choices(MoeSchedule schedule, const MoeSchedule& like);

/// Choice that `hexad verify` varies by itself, and its values.
struct VariedChoice {
  std::string_view key;
  std::vector<ChoiceFacts::Varied> values;
  bool (*matters)(const ScheduleSite&);
};
/// Returns the choices that `hexad verify` varies.
std::vector<VariedChoice> varied_choices();

}  // namespace hexad::moe
