// Facts about a choice in the list of moe_schedule.h, and the site that a schedule has to suit.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/base/error.h"
#include "framework/config/constraints.h"

namespace hexad::moe {

struct MoeSchedule;
enum class ReuseStrategy : uint8_t;

/// A value of an enumeration: its word in recipes, and what the reference adds in brackets, such as its paper.
template <class E>
struct Word {
  E value;
  std::string_view name, gloss;
};

/// Enumerations that list their words are read and written by them.
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
  bool recomputes_blocks = false;
  bool etp_across_tp = false;         // parallel.order puts ranks of an etp group into several tp groups
  bool two_levels = false;            // ranks of an all-to-all are on several nodes, several on each
  std::vector<std::string> orders{};  // registered ones, by name
  std::function<int64_t(ReuseStrategy)> least_memory_limit{};
};

/// Why a schedule cannot be: `what` is wrong with the key `key` of schedule.moe.
struct Refusal {
  std::string key, what;
};

/// Gathers refusals of one choice after the other.
class Refusals {
 public:
  void of(std::string_view key) { key_ = key; }
  template <class... Text>
  void add(const Text&... text) {
    list.push_back({std::string(key_), base::cat(text...)});
  }

  std::vector<Refusal> list;

 private:
  std::string_view key_;
};

struct ChoiceFacts {
  /// For the reference: what is chosen; the words of its values follow, then `note`, then what auto does.
  std::string_view meaning, note{}, automatic{};
  std::optional<config::Constraint> limits[2]{};
  /// True if every schedule's name contains this choice; else it is named only where it is not the default.
  bool in_every_name = false;

  /// Adds the reason why a schedule is illegal with this value: the text after the key, with legal values.
  void (*excludes)(const ScheduleSite&, const MoeSchedule&, Refusals&) = nullptr;
  /// True if its values differ at this site; else there is no need to try them.
  bool (*matters)(const ScheduleSite&) = [](const ScheduleSite&) { return true; };

  /// For `auto`: in which schedules there is something to choose; numbers to try; schedules that are not worth it; and
  /// whether only the fastest of the others try it, where there are hundreds.
  bool (*chosen_in)(const MoeSchedule&) = [](const MoeSchedule&) { return true; };
  std::span<const int64_t> tried{};
  bool (*left_out)(const ScheduleSite&, const MoeSchedule&) = [](const ScheduleSite&, const MoeSchedule&) {
    return false;
  };
  bool late = false;

  /// For `hexad verify`: values to vary, the plain one first, and another key of schedule.moe that goes with them.
  struct Varied {
    std::string_view value, also{};
  };
  Varied varied[5]{};
};

/// An entry of the list; of(s) is the choice's member of a schedule.
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
