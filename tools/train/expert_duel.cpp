#include "tools/train/expert_duel.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace hexad::train {

using base::cat;
using kernels::Direction;
using Winner = kernels::Duel::Winner;

namespace {

constexpr double max_seconds = 120;  // largest time limit of a trial; opening a GPU and loading kernels takes seconds
constexpr std::array directions{Direction::forward, Direction::backward};
constexpr std::array winners{Winner::plain, Winner::candidate};

std::string_view name_of(Direction d) { return d == Direction::forward ? "forward" : "backward"; }

}  // namespace

bool ExpertDuel::wanted(const Recipe& recipe) {
  return recipe.model.moe.experts > 0 && !recipe.schedule.moe.fused && !recipe.train.deterministic;
}

ExpertDuel::ExpertDuel(const Recipe& recipe, const comm::World& world, const TrainingDirectory& directory,
                       const ProveFused& prove, const std::string& saved)
    : recipe_(recipe), world_(world), directory_(directory) {
  for (const Winner forward : winners)
    for (const Winner backward : winners) {
      if (saved != text_of(forward, backward)) continue;
      decide(Direction::forward, forward, "as in the checkpoint");
      decide(Direction::backward, backward, "as in the checkpoint");
    }
  if (!decided()) hold_trial(prove);
}

void ExpertDuel::hold_trial(const ProveFused& prove) {
  if (!prove) return decide_both(Winner::plain, "this program cannot run a trial in another process");
  // The other ranks may wait for the trial of this rank, so the trial must end before their watchdogs expire.
  const double patience = recipe_.distributed.watchdog_seconds;
  const double limit = patience > 0 ? std::min(max_seconds, patience / 3) : max_seconds;
  const std::string why = prove(fused_shape(recipe_, place_of(world_.group())), limit);
  if (!why.empty()) directory_.warn(cat("schedule.moe.fused: the trial in another process failed: ", why));
  device::DeviceContext host;
  if (world_.group().any(!why.empty(), host)) decide_both(Winner::plain, "the trial failed on at least one rank");
}

void ExpertDuel::enter(TrainingState& state) {
  for (const auto& place : state.instance.model.moe_layers()) place.layer->fuse_by(&duels_);
  if (decided()) state.progress.fused = decision();
}

void ExpertDuel::end_step(TrainingState& state) {
  if (decided()) return;
  device::DeviceContext& context = state.instance.context;
  const auto most = [&](double value) { return world_.group().all_reduce_value(value, comm::Reduce::max, context); };
  for (const Direction direction : directions) {
    const kernels::DuelScore& mine = duels_.of(direction).score();
    if (!mine.failure.empty()) directory_.warn(cat("schedule.moe.fused: ", name_of(direction), ": ", mine.failure));
    // The common score has the maximum of each number over all ranks. Each time is therefore the time of the slowest
    // rank.
    const kernels::DuelScore all{
        .contests = static_cast<int64_t>(most(static_cast<double>(mine.contests))),
        .plain_seconds = most(mine.plain_seconds),
        .candidate_seconds = most(mine.candidate_seconds),
        .error = most(mine.error),
        .failure = most(mine.failure.empty() ? 0 : 1) > 0 ? "the fused kernel failed on at least one rank" : ""};
    const std::string figures =
        fmt::format("fused {:.3f} ms, plain {:.3f} ms in {} contests, with errors of up to {:.2g} times the tolerance",
                    1e3 * all.candidate_seconds, 1e3 * all.plain_seconds, all.contests, all.error);
    decide(direction, all.favours_candidate() ? Winner::candidate : Winner::plain,
           all.failure.empty() ? figures : all.failure);
  }
  state.progress.fused = decision();
}

void ExpertDuel::decide_both(Winner winner, const std::string& why) {
  for (const Direction direction : directions) decide(direction, winner, why);
}

void ExpertDuel::decide(Direction direction, Winner winner, const std::string& why) {
  duels_.of(direction).decide(winner);
  directory_.info(cat("schedule.moe.fused: ", winner == Winner::candidate ? "on" : "off", " in ", name_of(direction),
                      " (", why, ")"));
}

std::string ExpertDuel::text_of(Winner forward, Winner backward) const {
  const auto word = [](Winner winner) { return winner == Winner::candidate ? "fused" : "plain"; };
  return cat(device::name_of(recipe_.device), " forward ", word(forward), ", backward ", word(backward));
}

}  // namespace hexad::train
