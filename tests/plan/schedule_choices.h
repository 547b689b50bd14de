// Open recipes, predictions on imaginary machines, and trials with given times.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "tests/training/training.h"
#include "tools/plan/schedule_choice.h"
#include "tools/train/recipe/schedule_check.h"

namespace hexad::tests {

using namespace base;
using namespace layers;
using namespace plan;
using namespace train;
using namespace verify;

using moe::ChunkBy;
using moe::Duplicates;
using moe::MoeSchedule;

using Overrides = std::vector<std::string>;

/// Returns small_recipe() with duplicates, overlap and chunk_by left open.
inline Recipe open_recipe(Overrides overrides, const Overrides& more = {}) {
  for (const char* key : {"duplicates", "overlap", "chunk_by"}) overrides.push_back(cat("schedule.moe.", key, "=auto"));
  overrides.insert(overrides.end(), more.begin(), more.end());
  return small_recipe(overrides);
}

inline std::vector<MoeSchedule> legal(const Recipe& recipe) { return legal_schedules(recipe, Registry()); }

/// Returns the different values of f(schedule).
template <class F>
auto distinct(const std::vector<MoeSchedule>& all, F&& f) {
  std::set<decltype(f(all[0]))> out;
  for (const MoeSchedule& s : all) out.insert(f(s));
  return out;
}

/// Returns the candidate schedules of `recipe` on four ranks. The schedule that is predicted to be fastest with `rates`
/// comes first.
inline std::vector<MoeSchedule> predicted_on(const schedule::Rates& rates, const Recipe& recipe) {
  std::vector<MoeSchedule> order;
  on_ranks(4, [&](const comm::ProcessGroup& world) {
    TrainingRun run(recipe, world);
    Predictor predictor(recipe, run.instance.mesh);
    predictor.rates = rates;
    const ScheduleChoice choice(recipe, run.instance, predictor, world);
    EXPECT_TRUE(choice.made()) << "with trial_share: 0, the prediction chooses without trials";
    if (world.rank() != 0) return;
    for (const ScheduleCandidate& c : choice.candidates()) order.push_back(c.schedule);
  });
  return order;
}

/// Returns rates of links with a latency of `latency` seconds and with `bytes_per_second`, and rates of products with
/// `flops` FLOP/s.
inline schedule::Rates machine(double latency, double bytes_per_second, double flops) {
  schedule::Rates rates;
  rates.compute.fill(schedule::TimeCurve::linear(1e-7, flops));
  rates.copy = schedule::TimeCurve::linear(1e-7, 1e10);
  const auto link = schedule::TimeCurve::linear(latency, bytes_per_second);
  rates.other_links = {link, link};
  return rates;
}

/// Returns the times of a layer whose forward and backward take `seconds` each.
inline std::vector<PassRecorder::LayerTime> layers_of(double seconds) {
  return {{{"moe", schedule::PassKind::forward}, {0, seconds}}, {{"moe", schedule::PassKind::backward}, {0, seconds}}};
}

/// Runs trials until the choice is made, at most `most` trials. In a trial of schedule s, the forward and the backward
/// of a layer take seconds(s) each. Returns the schedules that were tried.
inline std::vector<MoeSchedule> try_all(ScheduleChoice& choice,
                                        const std::function<double(const MoeSchedule&)>& seconds, int64_t most = 1000) {
  std::vector<MoeSchedule> tried;
  while (!choice.made() && std::ssize(tried) < most) {
    choice.begin_trial();
    tried.push_back(choice.current().schedule);
    choice.end_trial(layers_of(seconds(tried.back())));
  }
  return tried;
}

}  // namespace hexad::tests
