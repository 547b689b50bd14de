// Functions that check whether a schedule is legal, and list the schedules to try if a recipe leaves choices open.
#pragma once

#include "layers/moe/schedule/moe_schedule_config.h"

namespace hexad::moe {

/// Returns the reasons why `schedule` is illegal at `site`, in the order of the choices; empty if it is legal.
std::vector<Refusal> refusals(const ScheduleSite& site, const MoeSchedule& schedule);

/// Returns all combinations of the open choices' values with the values that `config` sets, in a fixed order. Omits
/// combinations that `auto` skips (ChoiceFacts::left_out). Combinations may be illegal. A choice that has no effect at
/// `site` or in a schedule is not varied (ChoiceFacts::matters, chosen_in). For example, `duplicates` has no effect if
/// tp and etp are 1.
std::vector<MoeSchedule> combinations(const MoeScheduleConfig& config, const ScheduleSite& site);

/// Returns `schedule` with the late choices of `like` (see ChoiceFacts::late).
MoeSchedule with_late_choices(MoeSchedule schedule, const MoeSchedule& like);

/// True if a layer's results, gradients included, are known to be bitwise identical under both schedules. On a GPU, the
/// schedules must be equal. Elsewhere, they may differ in choices that keep all bits (ChoiceFacts::keeps_bits).
bool same_bits(const MoeSchedule& a, const MoeSchedule& b, bool on_gpu);

/// Choice that `hexad verify` varies while all other choices are fixed, and the values to use.
struct VariedChoice {
  std::string_view key;
  std::vector<ChoiceFacts::Varied> values;
  bool (*matters)(const ScheduleSite&);
};
/// Returns the choices that `hexad verify` varies.
std::vector<VariedChoice> varied_choices();

}  // namespace hexad::moe
