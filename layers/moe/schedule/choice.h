// Description of a choice in the list of moe_schedule.h, and of the site at which a schedule runs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/base/error.h"
#include "framework/config/constraints.h"

namespace hexad::moe {

struct MoeSchedule;
enum class ReuseStrategy : uint8_t;

/// Value of an enumeration. `name` is its name in recipes. The recipe reference prints `gloss`, for example the paper,
/// in brackets after the name.
template <class E>
struct Word {
  E value;
  std::string_view name, gloss;
};

/// Returns the names of the values of an enumeration that has words().
template <class E>
requires requires { words(E{}); }
constexpr auto enum_names(E e) {
  constexpr auto all = words(E{});
  std::array<std::pair<E, std::string_view>, all.size()> names{};
  for (size_t i = 0; i < all.size(); ++i) names[i] = {all[i].value, all[i].name};
  static_cast<void>(e);
  return names;
}

/// Properties of the model and its layout that decide whether a schedule is legal.
struct ScheduleSite {
  int64_t tp = 1, etp = 1, ep = 1;
  bool sp = false;
  int64_t experts = 0, shared_experts = 0;
  bool has_capacity = false;  // true if model.moe.capacity_factor is set
  bool recomputes_blocks = false;
  bool etp_across_tp = false;  // true if parallel.order puts ranks of an etp group into several tp groups
  bool two_levels = false;  // true if the ranks of an all-to-all are on several nodes, with several ranks on each node
  std::vector<std::string> orders{};  // names of the registered orders
  std::function<int64_t(ReuseStrategy)> least_memory_limit{};
};

/// Reason why a schedule is illegal: the problem `what` with the key `key` of schedule.moe.
struct Refusal {
  std::string key, what;
};

/// Collects the refusals of all choices, one choice after the other.
class Refusals {
 public:
  /// Sets the key of the refusals that follow.
  void of(std::string_view key) { key_ = key; }
  template <class... Text>
  void add(const Text&... text) {
    list.push_back({std::string(key_), base::cat(text...)});
  }

  std::vector<Refusal> list;

 private:
  std::string_view key_;
};

/// Returns the divisors of n from 2 on, in ascending order.
std::vector<int64_t> divisors_from_two(int64_t n);

/// Texts, limits and rules of one choice.
struct ChoiceFacts {
  /// Text for the reference: the meaning of the key. The words of its values follow, then `note`, then the meaning of
  /// auto.
  std::string_view meaning, note{}, automatic{};
  std::optional<config::Constraint> limits[2]{};
  /// True if every schedule's name contains this choice. If false, a name contains it only if it differs from the
  /// default.
  bool in_every_name = false;

  /// Adds a refusal if a schedule is illegal with its value of this choice. The text of the refusal follows the key and
  /// names the legal values.
  void (*excludes)(const ScheduleSite&, const MoeSchedule&, Refusals&) = nullptr;
  /// True if the values of this choice give different schedules at this site. If false, `auto` does not try them.
  bool (*matters)(const ScheduleSite&) = [](const ScheduleSite&) { return true; };

  /// Settings for `auto`. `chosen_in` is true for schedules in which this choice matters. `tried` returns the
  /// numbers to try in a schedule; a choice of numbers needs it. `left_out` is true for schedules that are not worth
  /// trying. `late` is true if only the fastest schedules try this choice, because there may be hundreds of schedules.
  bool (*chosen_in)(const MoeSchedule&) = [](const MoeSchedule&) { return true; };
  std::vector<int64_t> (*tried)(const ScheduleSite&, const MoeSchedule&) = nullptr;
  bool (*left_out)(const ScheduleSite&, const MoeSchedule&) = [](const ScheduleSite&, const MoeSchedule&) {
    return false;
  };
  bool late = false;

  /// Values that `hexad verify` varies, the default first. `also` is another setting of schedule.moe that a value
  /// needs.
  struct Varied {
    std::string_view value, also{};
  };
  Varied varied[5]{};
};

/// Entry of the list moe_choices (moe_schedule.h). of(s) returns the choice's member of a schedule.
template <class Of>
struct Choice {
  std::string_view key;
  Of of;
  ChoiceFacts facts;
};
template <class Of>
constexpr Choice<Of> choice(std::string_view key, Of of, const ChoiceFacts& facts) {
  return {key, of, facts};
}

}  // namespace hexad::moe
