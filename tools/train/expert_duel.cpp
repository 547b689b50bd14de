#include "tools/train/expert_duel.h"

#include <algorithm>

#include <fmt/format.h>

namespace hexad::train {

using base::cat;
using Winner = kernels::Duel::Winner;

namespace {

constexpr double max_seconds = 120;  // largest time limit of a trial; opening a GPU and loading kernels takes seconds

}  // namespace

bool ExpertDuel::wanted(const Recipe& recipe) {
  return recipe.model.moe.experts > 0 && !recipe.schedule.moe.fused && !recipe.train.deterministic;
}

ExpertDuel::ExpertDuel(const Recipe& recipe, const comm::World& world, const TrainingDirectory& directory,
                       const ProveFused& prove, const std::string& saved)
    : recipe_(recipe), world_(world), directory_(directory) {
  for (const Winner winner : {Winner::plain, Winner::candidate})
    if (saved == text_of(winner)) decide(winner, "as in the checkpoint");
  if (!duel_.winner()) hold_trial(prove);
}

void ExpertDuel::hold_trial(const ProveFused& prove) {
  if (!prove) return decide(Winner::plain, "this program cannot run a trial in another process");
  // The other ranks may wait for the trial of this rank, so the trial must end before their watchdogs expire.
  const double patience = recipe_.distributed.watchdog_seconds;
  const double limit = patience > 0 ? std::min(max_seconds, patience / 3) : max_seconds;
  const std::string why = prove(fused_shape(recipe_, place_of(world_.group())), limit);
  if (!why.empty()) directory_.warn(cat("schedule.moe.fused: the trial in another process failed: ", why));
  device::DeviceContext host;
  if (world_.group().any(!why.empty(), host)) decide(Winner::plain, "the trial failed on at least one rank");
}

void ExpertDuel::enter(TrainingState& state) {
  for (const auto& place : state.instance.model.moe_layers()) place.layer->fuse_by(&duel_);
  if (duel_.winner()) state.progress.fused = text_of(*duel_.winner());
}

void ExpertDuel::end_step(TrainingState& state) {
  if (duel_.winner()) return;
  const kernels::DuelScore& mine = duel_.score();
  if (!mine.failure.empty()) directory_.warn(cat("schedule.moe.fused: ", mine.failure));
  device::DeviceContext& context = state.instance.context;
  const auto most = [&](double value) { return world_.group().all_reduce_value(value, comm::Reduce::max, context); };
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
  decide(all.favours_candidate() ? Winner::candidate : Winner::plain, all.failure.empty() ? figures : all.failure);
  state.progress.fused = text_of(*duel_.winner());
}

void ExpertDuel::decide(Winner winner, const std::string& why) {
  duel_.decide(winner);
  directory_.info(cat("schedule.moe.fused: ", winner == Winner::candidate ? "on" : "off", " (", why, ")"));
}

std::string ExpertDuel::text_of(Winner winner) const {
  return cat(device::name_of(recipe_.device), winner == Winner::candidate ? " fused" : " plain");
}

}  // namespace hexad::train
