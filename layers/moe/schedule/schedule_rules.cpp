#include "layers/moe/schedule/schedule_rules.h"

#include "layers/moe/schedule/moe_choices.h"

namespace hexad::moe {
namespace {

template <class T>
constexpr bool is_optional = false;
template <class T>
constexpr bool is_optional<std::optional<T>> = true;

template <class E>
std::vector<E> all_of() {
  std::vector<E> all;
  for (const auto& [value, name] : enum_names(E{})) all.push_back(value);
  return all;
}

// Returns the values that the program may try for an open choice.
template <class T>
std::vector<T> values_of_open(const T& usual, const MoeSchedule& s, const ScheduleSite& site,
                              const ChoiceFacts& facts) {
  if constexpr (std::is_enum_v<T>)
    return all_of<T>();
  else if constexpr (std::is_same_v<T, int64_t>)
    return facts.tried(site, s);
  else if constexpr (std::is_same_v<T, std::string>)
    return site.orders;
  return {usual};
}
// Returns the values to try for a choice that schedules may also leave unset: the unset value and, for an enumeration,
// all of its values.
template <class T>
std::vector<std::optional<T>> values_of_unset(const std::optional<T>& unset) {
  std::vector<std::optional<T>> values{unset};
  if constexpr (std::is_enum_v<T>)
    for (const T value : all_of<T>()) values.emplace_back(value);
  return values;
}

// Returns the values of one choice that are combined with the schedule `s`. `said` is the value in the recipe,
// `settled` the value in settled(), and `usual` the default.
template <class T, class C>
std::vector<T> values(const C& said, const T& settled, const T& usual, const MoeSchedule& s, const ScheduleSite& site,
                      const ChoiceFacts& facts) {
  constexpr bool may_be_open = !std::is_same_v<T, C>;
  if constexpr (!may_be_open && !is_optional<T>) {
    return {settled};
  } else {
    if (said) return {settled};
    if (!facts.matters(site) || !facts.chosen_in(s)) return {usual};
    if constexpr (may_be_open)
      return values_of_open(usual, s, site, facts);
    else
      return values_of_unset(said);
  }
}

}  // namespace

std::vector<Refusal> refusals(const ScheduleSite& site, const MoeSchedule& schedule) {
  Refusals all;
  each_choice([&](std::string_view key, auto, const ChoiceFacts& facts) {
    all.of(key);
    if (facts.excludes) facts.excludes(site, schedule, all);
  });
  return std::move(all.list);
}

std::vector<MoeSchedule> combinations(const MoeScheduleConfig& config, const ScheduleSite& site) {
  const MoeSchedule usual, settled = config.settled();
  std::vector<MoeSchedule> all{settled};
  each_choice([&](std::string_view, auto access, const ChoiceFacts& facts) {
    std::vector<MoeSchedule> varied;
    for (const MoeSchedule& s : all)
      for (const auto& value : values(access(config), access(settled), access(usual), s, site, facts)) {
        MoeSchedule next = s;
        access(next) = value;
        const bool chosen = !(access(config) == access(next));
        if (!chosen || !facts.left_out(site, next)) varied.push_back(std::move(next));
      }
    all = std::move(varied);
  });
  // Sets the threshold of the recipe in schedules that read the threshold, because settled() removes it if `gemms` is
  // open.
  if (!config.gemms)
    for (MoeSchedule& s : all)
      if (s.gemms == Gemms::by_load) s.dense_rows = config.dense_rows;
  return all;
}

MoeSchedule with_late_choices(MoeSchedule schedule, const MoeSchedule& like) {
  each_choice([&](std::string_view, auto access, const ChoiceFacts& facts) {
    if (facts.late) access(schedule) = access(like);
  });
  return schedule;
}

bool same_bits(const MoeSchedule& a, const MoeSchedule& b, bool on_gpu) {
  bool same = true;
  each_choice([&](std::string_view, auto access, const ChoiceFacts& facts) {
    if (access(a) != access(b) && (on_gpu || !facts.keeps_bits)) same = false;
  });
  return same;
}

std::vector<VariedChoice> varied_choices() {
  std::vector<VariedChoice> all;
  each_choice([&](std::string_view key, auto, const ChoiceFacts& facts) {
    VariedChoice choice{key, {}, facts.matters};
    for (const ChoiceFacts::Varied& varied : facts.varied)
      if (!varied.value.empty()) choice.values.push_back(varied);
    if (!choice.values.empty()) all.push_back(std::move(choice));
  });
  return all;
}

}  // namespace hexad::moe
