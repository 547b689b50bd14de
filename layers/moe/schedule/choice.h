// Types that describe a choice in the list moe_choices (moe_choices.h), and the model and layout in which a schedule
// runs.
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

/// Value of an enumeration and its name in recipes. The recipe reference prints `description`, such as the source
/// paper, in brackets after the name.
template <class E>
struct Word {
  E value;
  std::string_view name, description;
};

/// Returns the values and names of an enumeration for which words() is defined.
template <class E>
requires requires { words(E{}); }
constexpr auto enum_names(E e) {
  constexpr auto all = words(E{});
  std::array<std::pair<E, std::string_view>, all.size()> names{};
  for (size_t i = 0; i < all.size(); ++i) names[i] = {all[i].value, all[i].name};
  static_cast<void>(e);
  return names;
}

/// Properties of the recipe and its layout that determine which schedules are legal, and which schedules `auto` tries.
struct ScheduleSite {
  int64_t tp = 1, etp = 1, ep = 1;
  bool sp = false;
  int64_t experts = 0, shared_experts = 0;
  bool dense_residual = false;
  bool has_capacity = false;  // true if model.moe.capacity_factor is set
  bool recomputes_blocks = false;
  bool etp_across_tp = false;         // true if parallel.order distributes an etp group over several tp groups
  bool two_levels = false;            // true if an all-to-all has several nodes, with several ranks on each
  bool has_dense_rows = false;        // true if the recipe or its profile sets schedule.moe.dense_rows
  bool fuses_experts = true;          // false: the experts are not SwiGLU, or have biases or a limit
  std::vector<std::string> orders{};  // names of the registered orders
  std::function<int64_t(ReuseStrategy)> least_memory_limit{};  // returns the minimum of memory_limit in bytes
};

/// Reason why a schedule is illegal: the key of schedule.moe, and the text of the problem, which follows the key.
struct Refusal {
  std::string key, what;
};

/// Collects the refusals of all choices, choice by choice.
class Refusals {
 public:
  /// Sets the key of the refusals that are added next.
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

/// Description of one choice: texts for the reference, limits and rules.
struct ChoiceFacts {
  /// Texts for the reference: the meaning of the key, a note, and the meaning of auto. The reference prints the values
  /// of the key between `meaning` and `note`.
  std::string_view meaning, note{}, automatic{};
  std::optional<config::Constraint> limits[2]{};
  /// True if the name of every schedule contains this choice. If false, a name contains the choice only if it differs
  /// from its default.
  bool always_named = false;

  /// Adds refusals if the value of this choice is illegal in a schedule. The text of a refusal follows the key in the
  /// message, and says which values are legal or what to change.
  void (*excludes)(const ScheduleSite&, const MoeSchedule&, Refusals&) = nullptr;
  /// True if the values that `auto` tries or `hexad verify` compares differ in effect at this site. If false, `auto`
  /// tries only one value.
  bool (*matters)(const ScheduleSite&) = [](const ScheduleSite&) { return true; };

  /// Settings for `auto`:
  ///   - `chosen_in` is true for schedules in which this choice has an effect.
  ///   - `tried` returns the values to try in a schedule. Only an open choice of integers needs this function.
  ///   - `left_out` is true for schedules that `auto` skips if the recipe leaves this choice open.
  ///   - `late` is true if only the fastest schedules are tried with all values of this choice: there may be hundreds
  ///     of schedules.
  bool (*chosen_in)(const MoeSchedule&) = [](const MoeSchedule&) { return true; };
  std::vector<int64_t> (*tried)(const ScheduleSite&, const MoeSchedule&) = nullptr;
  bool (*left_out)(const ScheduleSite&, const MoeSchedule&) = [](const ScheduleSite&, const MoeSchedule&) {
    return false;
  };
  bool late = false;

  /// True if the results of a layer, gradients included, are bitwise identical for all values of this choice on all
  /// devices except GPUs.
  bool keeps_bits = false;

  /// Values that `hexad verify` compares, the default first. `also` is another setting of schedule.moe that a value
  /// needs.
  struct Varied {
    std::string_view value, also{};
  };
  Varied varied[5]{};
};

/// Entry of the list moe_choices (moe_choices.h). of(s) returns the member of schedule s that stores this choice.
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
