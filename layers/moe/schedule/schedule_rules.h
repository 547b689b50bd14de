// Rules for legal schedules, and for those worth a try where the recipe leaves choices open.
#pragma once

#include "layers/moe/schedule/moe_schedule_config.h"

namespace hexad::moe {

/// Why `schedule` cannot be at `site`, choice by choice; none: it is legal.
std::vector<Refusal> refusals(const ScheduleSite& site, const MoeSchedule& schedule);

/// Every combination of what `config` says and of all values of what it leaves open, legal or not, in a fixed order.
/// Combinations that do the same at `site` are listed once: without tensor-parallel ranks nothing is held twice.
std::vector<MoeSchedule> combinations(const MoeScheduleConfig& config, const ScheduleSite& site);

/// `schedule` with the choices that are priced late as in `like`; see ChoiceFacts::late.
MoeSchedule with_late_choices(MoeSchedule schedule, const MoeSchedule& like);

/// For `hexad verify`: a choice that it varies by itself, by its key.
struct VariedChoice {
  std::string_view key;
  std::vector<ChoiceFacts::Varied> values;
  bool (*matters)(const ScheduleSite&);
};
std::vector<VariedChoice> varied_choices();

}  // namespace hexad::moe
