// What the program chooses of the MoE layers' schedule where the recipe says auto.
#include "tools/hexad/schedule_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <span>
#include <sstream>

#include "framework/io/checkpoint_store.h"
#include "parallel/comm/thread_group.h"
#include "parallel/comm/world.h"
#include "tests/support/tolerance.h"
#include "tests/training/scratch.h"
#include "tests/training/training.h"
#include "tools/hexad/schedule_check.h"
#include "tools/hexad/trainer.h"

namespace hexad::tests {
namespace {

using moe::Cut;
using moe::Duplicates;
using moe::MoeSchedule;

using Overrides = std::vector<std::string>;

Recipe open_recipe(Overrides overrides, const Overrides& more = {}) {
  for (const char* key : {"duplicates", "overlap", "cut"}) overrides.push_back(cat("schedule.moe.", key, "=auto"));
  overrides.insert(overrides.end(), more.begin(), more.end());
  return small_recipe(overrides);
}

template <class F>
auto distinct(const std::vector<MoeSchedule>& all, F&& f) {
  std::set<decltype(f(all[0]))> out;
  for (const MoeSchedule& s : all) out.insert(f(s));
  return out;
}

// The schedules of `recipe` on four ranks, in the order of their predictions on `rates`.
std::vector<MoeSchedule> predicted_on(const schedule::Rates& rates, const Recipe& recipe) {
  std::vector<MoeSchedule> order;
  on_ranks(4, [&](const comm::ProcessGroup& world) {
    TrainingRun run(recipe, world);
    Predictor predictor(recipe, run.instance.mesh);
    predictor.rates = rates;
    const ScheduleChoice choice(recipe, run.instance, predictor, world);
    EXPECT_TRUE(choice.made()) << "trial_share: 0";
    if (world.rank() != 0) return;
    for (const ScheduleCandidate& c : choice.candidates()) order.push_back(c.schedule);
  });
  return order;
}

// Links of `latency` seconds and `bytes_per_second`, products at `flops` a second.
schedule::Rates machine(double latency, double bytes_per_second, double flops) {
  schedule::Rates rates;
  rates.compute.fill(schedule::Curve::linear(1e-7, flops));
  rates.copy = schedule::Curve::linear(1e-7, 1e10);
  const auto link = schedule::Curve::linear(latency, bytes_per_second);
  rates.other_links = {link, link};
  return rates;
}

TEST(LegalSchedules, AreOneWhereNothingIsOpen) {
  const Recipe recipe = small_recipe({"parallel.ep=2", "schedule.moe.cut=tokens", "schedule.moe.parts=3"});
  ASSERT_EQ(legal_schedules(recipe).size(), 1u);
  EXPECT_EQ(legal_schedules(recipe)[0], recipe.schedule.moe.settled());
}

TEST(LegalSchedules, AreTheCutsWhereNoTokenIsHeldTwice) {
  const auto all = legal_schedules(open_recipe({"parallel.ep=2"}));
  EXPECT_EQ(distinct(all, [](const MoeSchedule& s) { return s.duplicates; }),
            std::set<Duplicates>{Duplicates::pause_before_gate});
  std::set<std::string> texts = distinct(all, [](const MoeSchedule& s) { return to_string(s); });
  EXPECT_EQ(texts.size(), all.size());
  // None; tokens in 2, 4, 8, 16 parts; nodes in 2, as there are two ranks; experts in 2, as each has two.
  EXPECT_EQ(all.size(), 1u + 4 + 1 + 1);
}

TEST(LegalSchedules, HoldEveryWayToTreatWhatIsHeldTwice) {
  const auto of = [](const MoeSchedule& s) { return s.duplicates; };
  EXPECT_EQ(distinct(legal_schedules(open_recipe({"parallel.tp=2"})), of).size(), 5u);
  // Sequence parallelism leaves nothing that is held twice.
  EXPECT_EQ(distinct(legal_schedules(open_recipe({"parallel.tp=2", "parallel.sp=true"})), of).size(), 3u);
}

TEST(LegalSchedules, ContradictNothing) {
  const Recipe recipe = open_recipe({"parallel.tp=2", "parallel.ep=2"});
  EXPECT_GT(legal_schedules(recipe).size(), 20u);
  for (const MoeSchedule& s : legal_schedules(recipe)) EXPECT_TRUE(contradictions(recipe, s).empty()) << to_string(s);
}

TEST(LegalSchedules, KeepWhatTheRecipeSays) {
  for (const MoeSchedule& s : legal_schedules(open_recipe({"parallel.tp=2"}, {"schedule.moe.parts=3"})))
    EXPECT_EQ(s.parts, 3) << to_string(s);
  const Recipe recipe = small_recipe({"parallel.ep=2", "schedule.moe.cut=tokens"});
  EXPECT_TRUE(recipe.schedule.moe.open()) << "parts are auto";
  for (const MoeSchedule& s : legal_schedules(recipe)) EXPECT_EQ(s.cut, Cut::tokens);
}

TEST(LegalSchedules, ThatDoNotExistAreRefusedWithTheReason) {
  // Offloading works chunk by chunk, which the peers' phases are not.
  const std::string message = message_of(ExitCode::usage, [] {
    small_recipe({"parallel.ep=2", "schedule.moe.cut=nodes", "schedule.moe.parts=auto", "schedule.moe.restore=s1"});
  });
  EXPECT_NE(message.find("schedule.moe.cut must be none or tokens"), std::string::npos) << message;
}

TEST(ScheduleChoice, ASlowWireLetsEveryTokenTravelOnce) {
  const Recipe recipe = open_recipe({"parallel.tp=2", "parallel.ep=2"}, {"schedule.moe.trial_share=0"});
  const auto order = predicted_on(machine(1e-6, 1e6, 1e12), recipe);
  ASSERT_FALSE(order.empty());
  EXPECT_TRUE(order.front().divides()) << to_string(order.front());
  EXPECT_FALSE(order.back().divides()) << to_string(order.back());
}

TEST(ScheduleChoice, AnotherWireChangesIt) {
  const Recipe recipe = open_recipe({"parallel.ep=4"}, {"schedule.moe.trial_share=0"});
  // As long on the wire as in the experts: to cut hides one behind the other.
  const double flops = 1e9;
  const auto balanced = predicted_on(machine(1e-9, 2e8, flops), recipe);
  EXPECT_TRUE(balanced.front().is_cut()) << to_string(balanced.front());
  // Messages that cost their latency: every part costs it again.
  const auto slow_to_start = predicted_on(machine(1e-2, 1e12, flops), recipe);
  EXPECT_FALSE(slow_to_start.front().is_cut()) << to_string(slow_to_start.front());
}

TEST(ScheduleChoice, TriesTheBestPredictedInTurnAndTakesTheFastest) {
  const Recipe recipe = open_recipe({"parallel.ep=2"}, {"train.steps=20", "schedule.moe.trial_share=0.4"});
  on_ranks(2, [&](const comm::ProcessGroup& world) {
    TrainingRun run(recipe, world);
    ScheduleChoice choice(recipe, run.instance, Predictor(recipe, run.instance.mesh), world);
    EXPECT_EQ(choice.trials_left(), 8);
    const auto finalists = std::span(choice.candidates()).first(4);
    EXPECT_EQ(std::count_if(finalists.begin(), finalists.end(),
                            [&](const auto& c) { return c.schedule == recipe.schedule.moe.settled(); }),
              1)
        << "what the program does without choosing";
    // A pass of the first finalist takes long, one of the third the least.
    const double seconds[] = {3, 2, 1, 2};
    for (int turn = 0; turn < 8; ++turn) {
      choice.begin_trial();
      EXPECT_EQ(choice.current().schedule, choice.candidates()[static_cast<size_t>(turn % 4)].schedule);
      std::vector<PassRecorder::Pass> passes(2);
      for (size_t p = 0; p < 2; ++p) {
        passes[p].name = p == 0 ? "moe forward" : "moe backward";
        passes[p].graph.add({}, {}, [](device::Stream&) { return device::Event{}; });
        passes[p].times = {{0, seconds[turn % 4]}};
      }
      EXPECT_FALSE(choice.made());
      choice.end_trial(passes);
    }
    EXPECT_TRUE(choice.made());
    EXPECT_EQ(choice.current().schedule, choice.candidates()[2].schedule);
    EXPECT_DOUBLE_EQ(choice.current().measured_seconds(), 2) << "forward and backward";
  });
}

TEST(ScheduleChoice, ShowingPassesChangesNothing) {
  const Recipe recipe = open_recipe({"parallel.tp=2", "parallel.ep=2"}, {"schedule.moe.restore=keep"});
  on_ranks(4, [&](const comm::ProcessGroup& world) {
    const FixedSource source = documents_of(recipe);
    TrainingRun plain(recipe, world), chosen(recipe, world);
    ScheduleChoice choice(recipe, chosen.instance, Predictor(recipe, chosen.instance.mesh), world);
    for (const auto& place : chosen.instance.model.moe_layers()) place.layer->reschedule(recipe.schedule.moe.settled());
    expect_bitwise(trajectory(plain, source, 2), trajectory(chosen, source, 2));
  });
}

TEST(ScheduleChoice, EveryScheduleThatMayBeChosenGivesTheSameLosses) {
  const Recipe recipe = open_recipe({"parallel.tp=2", "parallel.ep=2"});
  on_ranks(4, [&](const comm::ProcessGroup& world) {
    const FixedSource source = documents_of(recipe);
    TrainingRun plain(recipe, world), trying(recipe, world);
    for (const MoeSchedule& s : legal_schedules(recipe)) {
      for (const auto& place : trying.instance.model.moe_layers()) place.layer->reschedule(s);
      const double expected = plain.step(source).loss, loss = trying.step(source).loss;
      EXPECT_NEAR(loss, expected, 1e-10 * std::abs(expected)) << to_string(s);
    }
  });
}

std::string log_of(const Scratch& folder) {
  std::ostringstream text;
  text << std::ifstream(folder / "log/rank-0000.log").rdbuf();
  return text.str();
}

TEST(Trainer, KeepsItsChoiceAfterAResume) {
  const Scratch folder;
  const auto train = [&](int steps) {
    const comm::World world;
    const Overrides keys{"run.dir=" + folder.path(), cat("train.steps=", steps)};
    return Trainer(open_recipe(keys, {"schedule.moe.trial_share=0.5"}), Registry(), world).run();
  };
  ASSERT_EQ(train(12), ExitCode::done);
  const std::string first = log_of(folder);
  const size_t at = first.find("schedule.moe: chosen ");
  ASSERT_NE(at, std::string::npos) << first;
  const size_t begin = at + std::string("schedule.moe: chosen ").size();
  const std::string chosen = first.substr(begin, first.find(':', begin) - begin);
  ASSERT_EQ(train(14), ExitCode::done);
  EXPECT_NE(log_of(folder).find("schedule.moe: as before, " + chosen), std::string::npos) << log_of(folder);
}

}  // namespace
}  // namespace hexad::tests
