// Rules for the health and the speed of GPUs.
#include <map>
#include <set>

#include <fmt/format.h>

#include "framework/base/counted.h"
#include "framework/base/units.h"
#include "tools/check_cluster/findings.h"
#include "tools/check_cluster/robust.h"

namespace hexad::check_cluster {
namespace {

using base::ExitCode;

// Reasons of NVML for a reduced clock (nvmlClocksThrottleReason...).
constexpr int64_t software_thermal = 0x20, hardware_thermal = 0x40, power_brake = 0x80;

std::string clock_text(const CardState& state) {
  const auto text = [](const std::optional<int>& megahertz) {
    return megahertz ? fmt::format("{} MHz", *megahertz) : std::string("unknown");
  };
  return fmt::format("temperature {}, SM clock {}, at most {}",
                     state.temperature ? fmt::format("{} C", *state.temperature) : std::string("unknown"),
                     text(state.clock), text(state.highest_clock));
}

void judge_state(std::vector<Finding>& findings, const RankReport& rank, const Expectations& expected) {
  const CardState& state = rank.facts.card_state;
  if (const int64_t errors = state.uncorrected_errors.value_or(0); errors > 0)
    findings.push_back(
        {.code = expected.card ? ExitCode::resource : ExitCode::done,
         .kind = "gpu",
         .message = fmt::format("the GPU of {} has had {} since its driver was loaded, expected none; reset or replace "
                                "the GPU",
                                name_of(rank), base::counted(errors, "uncorrected ECC error"))});
  const int64_t reasons = state.throttle_reasons.value_or(0);
  const auto slowed = [&](std::string_view why) {
    findings.push_back({.code = ExitCode::done,
                        .kind = "gpu",
                        .message = fmt::format("the GPU of {} reduces its clock because of {} ({})", name_of(rank), why,
                                               clock_text(state))});
  };
  if (reasons & (software_thermal | hardware_thermal)) slowed("its temperature");
  if (reasons & power_brake) slowed("the power brake of the power supply");
}

// Adds a finding for each GPU that computes slower than the other GPUs of its kind.
void name_slow_cards(std::vector<Finding>& findings, const std::vector<RankReport>& ranks) {
  struct Peers {
    std::vector<const RankReport*> ranks{};
    std::vector<double> durations{};  // seconds per FLOP
  };
  std::map<std::string, Peers> kinds;
  for (const RankReport& rank : ranks) {
    if (rank.facts.card.empty() || rank.card_product_rate <= 0) continue;
    Peers& peers = kinds[rank.facts.card];
    peers.ranks.push_back(&rank);
    peers.durations.push_back(1 / rank.card_product_rate);
  }
  for (const auto& [card, peers] : kinds)
    for (const Slow& slow : slow_values(peers.durations, {.ratio = slow_card_ratio}))
      findings.push_back(
          {.code = ExitCode::done,
           .kind = "gpu",
           .message = fmt::format("the GPU of {} computes at {}, {:.1f} times slower than the other GPUs "
                                  "({}); {}",
                                  name_of(*peers.ranks[slow.index]),
                                  base::human_quantity(1 / peers.durations[slow.index], "FLOP/s"), slow.times,
                                  base::human_quantity(1 / slow.reference, "FLOP/s"),
                                  clock_text(peers.ranks[slow.index]->facts.card_state))});
}

}  // namespace

void judge_card_states(std::vector<Finding>& findings, const std::vector<RankReport>& ranks,
                       const Expectations& expected) {
  std::set<std::string> judged;  // several ranks may share a GPU
  for (const RankReport& rank : ranks)
    if (!rank.facts.card.empty() && (rank.facts.card_id.empty() || judged.insert(rank.facts.card_id).second))
      judge_state(findings, rank, expected);
  name_slow_cards(findings, ranks);
}

}  // namespace hexad::check_cluster
