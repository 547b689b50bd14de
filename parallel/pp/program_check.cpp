#include "parallel/pp/program_check.h"

#include <algorithm>
#include <map>

#include "framework/base/counted.h"
#include "framework/base/error.h"
#include "parallel/pp/price.h"
#include "parallel/pp/transfers.h"

namespace hexad::pp {
namespace {

using base::require;

// Completed parts of the work on one micro-batch of a virtual stage.
struct Parts {
  bool forward = false, input = false, weights = false;
  bool all(Phase phase) const { return forward && (phase == Phase::evaluation || (input && weights)); }
};

void check_list(const Schedule& schedule, int rank) {
  std::map<std::pair<int, int>, Parts> done;
  const auto& list = schedule.ranks[rank];
  for (size_t i = 0; i < list.size(); ++i) {
    const Action& a = list[i];
    const auto claim = [&](bool ok, const auto&... what) {
      if (!ok) base::fail_invariant(base::cat("[pp] rank ", rank, " action ", i, " ", to_string(a), ": ", what...));
    };
    claim(0 <= a.local_stage && a.local_stage < schedule.stages.stages_a_rank, "local stage ", a.local_stage,
          " does not exist; expected 0 to ", schedule.stages.stages_a_rank - 1);
    claim(0 <= a.micro && a.micro < schedule.micro_batches, "micro-batch ", a.micro, " does not exist; expected 0 to ",
          schedule.micro_batches - 1);
    claim(schedule.phase == Phase::training || a.is_forward(), "a backward in an evaluation; expected only forwards");
    Parts& parts = done[{a.local_stage, a.micro}];
    const bool weights = a.kind == Action::Kind::backward || a.kind == Action::Kind::backward_weight;
    if (a.is_forward()) claim(!std::exchange(parts.forward, true), "a second forward; expected only one");
    if (a.is_backward()) {
      claim(parts.forward, "no forward before it; expected the forward first");
      claim(!std::exchange(parts.input, true), "a second input gradient; expected only one");
    }
    if (weights) {
      claim(parts.input, "no input gradient before it; expected the input gradient first");
      claim(!std::exchange(parts.weights, true), "a second weight gradient; expected only one");
    }
    if (a.merged)
      claim(
          a.is_forward() && i + 1 < list.size() && list[i + 1].is_backward() && list[i + 1].micro != a.micro,
          "it is merged, but no backward of another micro-batch follows it; expected a forward, then such a backward");
  }
  for (int local_stage = 0; local_stage < schedule.stages.stages_a_rank; ++local_stage)
    for (int micro = 0; micro < schedule.micro_batches; ++micro)
      require(done[{local_stage, micro}].all(schedule.phase), "[pp] rank ", rank, " leaves out a part of local stage ",
              local_stage, " micro-batch ", micro, "; expected ",
              schedule.phase == Phase::training ? "forward, input gradient and weight gradient" : "forward");
}

bool has_pairs(const Schedule& schedule) {
  return std::ranges::any_of(schedule.ranks, [](const auto& list) {
    return std::ranges::any_of(list, [](const Action& a) { return a.merged; });
  });
}

}  // namespace

void check(const Schedule& schedule) {
  require(static_cast<int>(schedule.ranks.size()) == schedule.stages.ranks, "[pp] the schedule has ",
          base::counted(std::ssize(schedule.ranks), "list"), " of actions for ",
          base::counted(schedule.stages.ranks, "rank"), "; expected one list for each rank");
  for (int rank = 0; rank < schedule.stages.ranks; ++rank) check_list(schedule, rank);
  // Sends do not block, and messages arrive in order. The schedule is therefore legal if every list can run to its end.
  for (const bool merge : {false, true}) {
    if (merge && !has_pairs(schedule)) return;  // without pairs, merging changes nothing
    price(schedule, StageTimes{}, {.merge = merge});
    check(schedule, transfers(schedule, merge), merge);
  }
}

std::vector<int> peak_activations(const Schedule& schedule) {
  std::vector<int> peaks;
  for (const auto& list : schedule.ranks) {
    int kept = 0, peak = 0;
    for (const Action& a : list) {
      if (a.is_forward()) peak = std::max(peak, ++kept);
      if (a.kind == Action::Kind::backward || a.kind == Action::Kind::backward_weight) --kept;
    }
    peaks.push_back(peak);
  }
  return peaks;
}

}  // namespace hexad::pp
