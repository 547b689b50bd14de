#include "layers/moe/schedule/moe_schedule.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <system_error>

#include "framework/base/divisors.h"
#include "framework/base/enum_names.h"
#include "framework/base/error.h"
#include "framework/config/type.h"
#include "layers/moe/schedule/moe_choices.h"
#include "layers/moe/schedule/moe_schedule_config.h"

namespace hexad::moe {
namespace {

using base::cat;

template <class T>
std::string text_of(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return std::string(base::enum_name(value));
  } else if constexpr (requires { *value; }) {
    return value ? text_of(*value) : "auto";
  } else if constexpr (std::is_same_v<T, config::ByteSize>) {
    return cat(value.bytes);
  } else if constexpr (std::is_floating_point_v<T>) {
    char text[32];  // the shortest text that is read back as the same number
    return {text, std::to_chars(std::begin(text), std::end(text), value).ptr};
  } else {
    return cat(value);
  }
}

// Returns the text of all choices that differ from the default or for which `always` is true.
template <class Always>
std::string choices_text(const MoeSchedule& s, const Always& always) {
  const MoeSchedule usual;
  std::string out;
  each_choice([&](std::string_view key, auto access, const ChoiceFacts& facts) {
    if (always(facts) || access(s) != access(usual)) out += cat(out.empty() ? "" : ", ", key, " ", text_of(access(s)));
  });
  return out;
}

// Returns a choice's text in the reference: "treatment of the tokens ...: baseline (DeepSpeed-MoE), ...; auto: chosen
// in the first steps".
template <class T>
std::string meaning_of(const ChoiceFacts& facts) {
  std::string text(facts.meaning);
  if constexpr (requires { words(T{}); }) {
    std::string_view before = ": ";
    for (const auto& word : words(T{})) {
      text += cat(before, word.name, word.description.empty() ? "" : cat(" (", word.description, ")"));
      before = ", ";
    }
  }
  if (!facts.note.empty()) text += cat("; ", facts.note);
  if (!facts.automatic.empty()) text += cat("; auto: ", facts.automatic);
  return text;
}

// True if the recipe leaves a choice open. In the first overload, only recipes may leave the choice unset. In the
// second overload, the choice has the same type in recipes and schedules, and is never open.
template <class T>
bool is_open(const T&, const std::optional<T>& said) {
  return !said;
}
template <class T>
bool is_open(const T&, const T&) {
  return false;
}
template <class T>
void settle(T& choice, const std::optional<T>& said) {
  if (said) choice = *said;
}
template <class T>
void settle(T& choice, const T& said) {
  choice = said;
}

// Sets an unset choice of a recipe to `chosen`. There are three overloads:
//   - for choices that only recipes may leave unset
//   - for choices that schedules may also leave unset
//   - for choices that are always set, which do not change
template <class T>
void take(std::optional<T>& said, const T& chosen) {
  if (!said) said = chosen;
}
template <class T>
void take(std::optional<T>& said, const std::optional<T>& chosen) {
  if (!said) said = chosen;
}
template <class T>
void take(T&, const T&) {}

// Inverse of text_of(): reads `value` from its text. Returns false if the text is not valid.
template <class T>
bool read_text(std::string_view text, T& value) {
  if constexpr (std::is_enum_v<T>) {
    const auto named = base::enum_named<T>(text);
    if (named) value = *named;
    return named.has_value();
  } else if constexpr (std::is_same_v<T, std::string>) {
    value = text;
    return !text.empty();
  } else if constexpr (std::is_same_v<T, config::ByteSize>) {
    return read_text(text, value.bytes);
  } else if constexpr (requires { value.has_value(); }) {
    if (text != "auto") return read_text(text, value.emplace());
    value.reset();
    return true;
  } else {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc{} && end == text.data() + text.size();
  }
}

}  // namespace

std::vector<int64_t> divisors_from_two(int64_t n) {
  std::vector<int64_t> all = base::divisors(n);
  if (!all.empty()) all.erase(all.begin());
  return all;
}

bool MoeSchedule::is_dense(std::span<const int64_t> offsets) const {
  if (gemms != Gemms::by_load) return gemms == Gemms::dense;
  int64_t busy = 0;
  for (size_t e = 0; e + 1 < offsets.size(); ++e) busy += offsets[e] < offsets[e + 1] ? 1 : 0;
  return busy > 0 && offsets.back() - offsets.front() >= busy * dense_rows.value_or(usual_dense_rows);
}

std::string to_string(const MoeSchedule& s) {
  return choices_text(s, [](const ChoiceFacts& facts) { return facts.always_named; });
}

std::optional<MoeSchedule> schedule_named(std::string_view name) {
  MoeSchedule s;
  for (std::string_view rest = name; !rest.empty();) {
    const std::string_view part = rest.substr(0, rest.find(", "));
    rest.remove_prefix(std::min(rest.size(), part.size() + 2));
    const size_t space = std::min(part.find(' '), part.size() - 1);
    bool read = false;
    each_choice([&](std::string_view key, auto access, const ChoiceFacts&) {
      if (key == part.substr(0, space)) read = read_text(part.substr(space + 1), access(s));
    });
    if (!read) return {};
  }
  return name.empty() ? std::nullopt : std::optional(s);
}

std::string unusual_choices(const MoeSchedule& s) {
  return choices_text(s, [](const ChoiceFacts&) { return false; });
}

MoeSchedule MoeScheduleConfig::settled() const {
  MoeSchedule s;
  each_choice([&](std::string_view, auto access, const ChoiceFacts&) { settle(access(s), access(*this)); });
  if (!memory_reuse && memory_limit) s.memory_reuse = ReuseStrategy::s4;
  if (!chunks) s.chunks = s.overlaps() ? 2 : 1;
  if (!gemms) s.dense_rows.reset();  // until the program chooses by_load, nothing reads the threshold
  return s;
}

std::vector<std::string_view> MoeScheduleConfig::open_keys() const {
  const MoeSchedule s = settled();
  std::vector<std::string_view> keys;
  each_choice([&](std::string_view key, auto access, const ChoiceFacts& facts) {
    if (is_open(access(s), access(*this)) && facts.chosen_in(s)) keys.push_back(key);
  });
  return keys;
}

void MoeScheduleConfig::choose(const MoeSchedule& schedule) {
  each_choice([&](std::string_view, auto access, const ChoiceFacts&) { access(*this) = access(schedule); });
  redecide_every = 0;
}

void MoeScheduleConfig::choose_open(const MoeSchedule& schedule) {
  if (!gemms && schedule.gemms != Gemms::by_load) dense_rows.reset();  // only by_load reads the threshold
  each_choice([&](std::string_view, auto access, const ChoiceFacts&) { take(access(*this), access(schedule)); });
  redecide_every = 0;
}

void MoeScheduleConfig::fields(config::Visitor& v) {
  each_choice([&](std::string_view key, auto access, const ChoiceFacts& facts) {
    using T = std::remove_cvref_t<decltype(access(std::declval<MoeSchedule&>()))>;
    std::optional<config::Automatic> automatic;
    if (!facts.automatic.empty()) automatic.emplace();
    v(key, access(*this), meaning_of<T>(facts), automatic, facts.limits[0], facts.limits[1]);
  });
  v("trial_share", trial_share,
    "share of train.steps that is used to time the schedules with the fastest predictions before one is chosen; if "
    "this share is fewer than eight steps (six if only chunks is auto), the prediction alone decides",
    config::at_least(0), config::at_most(0.5));
  v("redecide_every", redecide_every,
    "number of steps between re-decisions; a re-decision predicts the times of the schedules for the load of the "
    "experts in its step, and chooses the fastest schedule if it is more than 5% faster than the present schedule; 0: "
    "never",
    config::at_least(0));
}

}  // namespace hexad::moe
