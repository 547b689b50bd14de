// The program's choice of the MoE layers' schedule for recipes with the value auto.
#include "tools/plan/run_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>

#include "framework/base/tolerance.h"
#include "framework/io/checkpoint_store.h"
#include "parallel/comm/thread_group.h"
#include "parallel/comm/world.h"
#include "tests/training/test_folder.h"
#include "tests/training/training.h"
#include "tools/train/recipe/schedule_check.h"
#include "tools/train/trainer.h"

namespace hexad::tests {

using namespace base;
using namespace layers;
using namespace train;
using namespace verify;
namespace {

using namespace plan;

using moe::ChunkBy;
using moe::Duplicates;
using moe::MoeSchedule;

using Overrides = std::vector<std::string>;

Recipe open_recipe(Overrides overrides, const Overrides& more = {}) {
  for (const char* key : {"duplicates", "overlap", "chunk_by"}) overrides.push_back(cat("schedule.moe.", key, "=auto"));
  overrides.insert(overrides.end(), more.begin(), more.end());
  return small_recipe(overrides);
}

std::vector<MoeSchedule> legal(const Recipe& recipe) { return legal_schedules(recipe, Registry()); }

template <class F>
auto distinct(const std::vector<MoeSchedule>& all, F&& f) {
  std::set<decltype(f(all[0]))> out;
  for (const MoeSchedule& s : all) out.insert(f(s));
  return out;
}

// Returns the schedules of `recipe` on four ranks, in the order of their predictions on `rates`.
std::vector<MoeSchedule> predicted_on(const schedule::Rates& rates, const Recipe& recipe) {
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

// Returns rates of links with `latency` seconds and `bytes_per_second`, and of products with `flops` per second.
schedule::Rates machine(double latency, double bytes_per_second, double flops) {
  schedule::Rates rates;
  rates.compute.fill(schedule::TimeCurve::linear(1e-7, flops));
  rates.copy = schedule::TimeCurve::linear(1e-7, 1e10);
  const auto link = schedule::TimeCurve::linear(latency, bytes_per_second);
  rates.other_links = {link, link};
  return rates;
}

TEST(LegalSchedules, ContainOnlyTheRecipesScheduleIfNoKeyIsOpen) {
  const Recipe recipe = small_recipe({"parallel.ep=2", "schedule.moe.chunk_by=tokens", "schedule.moe.chunks=3"});
  ASSERT_EQ(legal(recipe).size(), 1u);
  EXPECT_EQ(legal(recipe)[0], recipe.schedule.moe.settled());
}

TEST(LegalSchedules, AreTheChunkingsIfNoTokenIsHeldTwice) {
  const auto all = legal(open_recipe({"parallel.ep=2"}));
  EXPECT_EQ(distinct(all, [](const MoeSchedule& s) { return s.duplicates; }),
            std::set<Duplicates>{Duplicates::pause_before_gate});
  std::set<std::string> texts = distinct(all, [](const MoeSchedule& s) { return to_string(s); });
  EXPECT_EQ(texts.size(), all.size());
  // The schedules have no chunks; 2, 4, 8 or 16 chunks of tokens; 2 chunks of nodes, because there are two ranks; or 2
  // chunks of experts, because each rank has two.
  EXPECT_EQ(all.size(), 1u + 4 + 1 + 1);
}

TEST(LegalSchedules, DivideExpertsIntoEveryNumberOfEqualGroups) {
  const auto all = legal(small_recipe(
      {"parallel.ep=2", "model.moe.experts=40", "schedule.moe.chunk_by=experts", "schedule.moe.chunks=auto"}));
  EXPECT_EQ(distinct(all, [](const MoeSchedule& s) { return s.chunks; }), (std::set<int64_t>{2, 4, 5, 10, 20}))
      << "EPS-MoE divides 20 experts of a rank into 5 or 20 groups";
}

TEST(LegalSchedules, Algorithm1HasTheSameGroupsOfExperts) {
  const Recipe recipe = small_recipe({"parallel.ep=2", "model.moe.experts=12", "schedule.moe.chunk_by=experts"});
  EXPECT_EQ(legal_chunks(recipe, Registry(), recipe.schedule.moe.settled()), (std::vector<int64_t>{2, 3, 6}));
}

TEST(LegalSchedules, ContainEveryTreatmentOfDuplicates) {
  const auto of = [](const MoeSchedule& s) { return s.duplicates; };
  EXPECT_EQ(distinct(legal(open_recipe({"parallel.tp=2"})), of).size(), 5u);
  // With sequence parallelism, no two ranks hold the same token.
  EXPECT_EQ(distinct(legal(open_recipe({"parallel.tp=2", "parallel.sp=true"})), of).size(), 3u);
}

TEST(LegalSchedules, ContradictNoSetting) {
  const Recipe recipe = open_recipe({"parallel.tp=2", "parallel.ep=2"});
  EXPECT_GT(legal(recipe).size(), 20u);
  for (const MoeSchedule& s : legal(recipe)) EXPECT_TRUE(contradictions(recipe, s).empty()) << to_string(s);
}

TEST(LegalSchedules, KeepTheSettingsOfTheRecipe) {
  for (const MoeSchedule& s : legal(open_recipe({"parallel.tp=2"}, {"schedule.moe.chunks=3"})))
    EXPECT_EQ(s.chunks, 3) << to_string(s);
  const Recipe recipe = small_recipe({"parallel.ep=2", "schedule.moe.chunk_by=tokens"});
  EXPECT_TRUE(recipe.schedule.moe.open()) << "schedule.moe.chunks is open by default";
  for (const MoeSchedule& s : legal(recipe)) EXPECT_EQ(s.chunk_by, ChunkBy::tokens);
}

TEST(LegalSchedules, VaryRowsOnlyIfRowsAreSent) {
  const auto rows = [](const Recipe& r) { return distinct(legal(r), [](const MoeSchedule& s) { return s.rows; }); };
  EXPECT_EQ(rows(small_recipe({"parallel.ep=2", "schedule.moe.rows=auto"})).size(), 2u);
  EXPECT_EQ(rows(small_recipe({"schedule.moe.rows=auto"})).size(), 1u);
  EXPECT_EQ(rows(small_recipe({"parallel.ep=2", "schedule.moe.rows=auto", "schedule.moe.memory_reuse=s4",
                               "schedule.moe.memory_limit=100000000"})),
            std::set<ep::RowOf>{ep::RowOf::slot})
      << "a memory limit counts rows of slots";
}

TEST(LegalSchedules, VaryGemmsOnlyWithAThreshold) {
  const auto gemms = [](const Recipe& r) { return distinct(legal(r), [](const MoeSchedule& s) { return s.gemms; }); };
  using moe::Gemms;
  EXPECT_EQ(gemms(small_recipe({"schedule.moe.gemms=auto"})), std::set<Gemms>{Gemms::grouped});
  const Recipe recipe = open_recipe({"parallel.ep=2", "schedule.moe.gemms=auto", "schedule.moe.dense_rows=4"});
  EXPECT_EQ(gemms(recipe), (std::set{Gemms::grouped, Gemms::by_load}));
  for (const MoeSchedule& s : legal(recipe))
    EXPECT_EQ(s.dense_rows.has_value(), s.gemms == Gemms::by_load) << to_string(s);
}

TEST(LegalSchedules, VaryTheEspExchangeOnlyWithOtherChoices) {
  EXPECT_FALSE(small_recipe({"parallel.tp=2"}).schedule.moe.open()) << "the default is auto";
  const auto direct = [](const Recipe& r) {
    const auto all = legal(r);
    return std::ranges::count(all, std::optional(ep::EspExchange::direct), &MoeSchedule::esp_exchange);
  };
  EXPECT_EQ(direct(small_recipe({"parallel.tp=2", "schedule.moe.duplicates=auto"})), 3)
      << "three treatments of duplicates divide the tokens";
  EXPECT_EQ(direct(open_recipe({"parallel.ep=2"})), 0) << "no rank shares an expert";
  EXPECT_EQ(direct(open_recipe({"parallel.tp=2", "schedule.moe.esp_exchange=gather"})), 0);
}

TEST(LegalSchedules, VaryTheOrderOnlyOfChunkedPasses) {
  const auto all = legal(open_recipe({"parallel.ep=2", "schedule.moe.order=auto"}));
  for (const MoeSchedule& s : all) {
    if (!s.is_chunked()) {
      EXPECT_EQ(s.order, "alternating");
    }
  }
  EXPECT_EQ(all.size(), 1u + 3 * (4 + 1 + 1));
  EXPECT_FALSE(small_recipe({"parallel.ep=2", "schedule.moe.order=auto"}).schedule.moe.open())
      << "without chunks, there is no order to choose";
  // Restored chunks share two buffers, so a third chunk must not be in flight.
  const Recipe restored = small_recipe(
      {"parallel.ep=2", "schedule.moe.chunk_by=tokens", "schedule.moe.memory_reuse=s4", "schedule.moe.order=auto"});
  int returning_last = 0;
  for (const MoeSchedule& s : legal(restored)) {
    if (s.order == "returns_last") {
      ++returning_last;
      EXPECT_EQ(s.chunks, 2);
    }
  }
  EXPECT_GT(returning_last, 0);
}

TEST(LegalSchedules, VaryMemoryReuseExceptWhenChunkedByNodes) {
  const auto of = [](const MoeSchedule& s) { return s.memory_reuse; };
  const auto all = legal(open_recipe({"parallel.ep=2", "schedule.moe.memory_reuse=auto"}));
  EXPECT_EQ(distinct(all, of).size(), 5u);
  int by_nodes = 0;
  for (const MoeSchedule& s : all) {
    if (s.chunk_by == ChunkBy::nodes) {
      ++by_nodes;
      EXPECT_EQ(s.memory_reuse, moe::ReuseStrategy::none);
    }
  }
  EXPECT_GT(by_nodes, 0);
}

TEST(LegalSchedules, AreRefusedWithTheReasonWhenNoneExists) {
  // Offloading needs separate chunks, but the phases of peers are not separate.
  const std::string message = message_of(ExitCode::usage, [] {
    small_recipe(
        {"parallel.ep=2", "schedule.moe.chunk_by=nodes", "schedule.moe.chunks=auto", "schedule.moe.memory_reuse=s1"});
  });
  EXPECT_NE(message.find("schedule.moe.chunk_by must be none or tokens"), std::string::npos) << message;
}

TEST(ScheduleChoice, SlowAllToAllSendsEveryTokenOnce) {
  const Recipe recipe = open_recipe({"parallel.tp=2", "parallel.ep=2"}, {"schedule.moe.trial_share=0"});
  schedule::Rates rates = machine(1e-6, 1e9, 1e12);
  for (const auto& [group, size] : {std::pair{"ep", 2}, {"experts", 4}})
    rates.links.push_back({schedule::TaskKind::all_to_all, group, size, false, schedule::TimeCurve::linear(1e-6, 1e6)});
  const auto order = predicted_on(rates, recipe);
  ASSERT_FALSE(order.empty());
  EXPECT_TRUE(order.front().divides()) << to_string(order.front());
  EXPECT_FALSE(order.back().divides()) << to_string(order.back());
}

TEST(ScheduleChoice, DependsOnLatencyAndBandwidth) {
  const Recipe recipe = open_recipe({"parallel.ep=4"}, {"schedule.moe.trial_share=0"});
  // Transfers take as long as the experts, so chunks allow both to overlap.
  const double flops = 1e9;
  const auto balanced = predicted_on(machine(1e-9, 2e8, flops), recipe);
  EXPECT_TRUE(balanced.front().is_chunked()) << to_string(balanced.front());
  // Latency dominates the time of a message, and every further chunk adds it again.
  const auto slow_to_start = predicted_on(machine(1e-2, 1e12, flops), recipe);
  EXPECT_FALSE(slow_to_start.front().is_chunked()) << to_string(slow_to_start.front());
}

// Returns recordings of a forward and a backward pass that take `seconds` each.
std::vector<PassRecorder::Recording> passes_of(double seconds) {
  std::vector<PassRecorder::Recording> passes(2);
  for (size_t p = 0; p < 2; ++p) {
    passes[p].name = p == 0 ? "moe forward" : "moe backward";
    passes[p].graph.add({}, {}, [](device::Stream&) { return device::Event{}; });
    passes[p].times = {{0, seconds}};
  }
  return passes;
}

// Runs trials until the choice is made, at most `most` of them. Returns the schedules that were tried.
std::vector<MoeSchedule> try_all(ScheduleChoice& choice, const std::function<double(const MoeSchedule&)>& seconds,
                                 int64_t most = 1000) {
  std::vector<MoeSchedule> tried;
  while (!choice.made() && std::ssize(tried) < most) {
    choice.begin_trial();
    tried.push_back(choice.current().schedule);
    choice.end_trial(passes_of(seconds(tried.back())));
  }
  return tried;
}

TEST(ScheduleChoice, DependsOnTheRateOfDenseProducts) {
  const auto best = [](double dense_flops) {
    schedule::Rates rates = machine(1e-6, 1e9, 1e9);
    rates.dense.fill(schedule::TimeCurve::linear(1e-7, dense_flops));
    const Recipe recipe = small_recipe({"parallel.ep=2", "batch.global=8", "schedule.moe.gemms=auto",
                                        "schedule.moe.dense_rows=1", "schedule.moe.trial_share=0"});
    return predicted_on(rates, recipe).front().gemms;
  };
  EXPECT_EQ(best(2e9), moe::Gemms::by_load);
  EXPECT_EQ(best(5e8), moe::Gemms::grouped);
}

TEST(ScheduleChoice, TriesTheBestPredictedInTurnAndKeepsTheFastest) {
  const Recipe recipe =
      small_recipe({"parallel.tp=2", "schedule.moe.duplicates=auto", "train.steps=20", "schedule.moe.trial_share=0.4"});
  on_ranks(2, [&](const comm::ProcessGroup& world) {
    TrainingRun run(recipe, world);
    ScheduleChoice choice(recipe, run.instance, Predictor(recipe, run.instance.mesh), world);
    EXPECT_EQ(choice.trials_left(), 8);
    // The first finalist is the slowest, and the third is the fastest. Ranks measure different times. The time of the
    // slowest rank counts.
    const double seconds[] = {3, 2, 1, 2};
    int turn = 0;
    const auto tried =
        try_all(choice, [&](const MoeSchedule&) { return seconds[turn++ % 4] * (world.rank() == 0 ? 0.5 : 1); });
    ASSERT_EQ(tried.size(), 8u);
    EXPECT_EQ(std::ranges::count(tried, recipe.schedule.moe.settled()), 2)
        << "both rounds also try the recipe's default";
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(tried[i], tried[i + 4]);
    EXPECT_EQ(tried[0], choice.candidates()[0].schedule);
    EXPECT_EQ(choice.current().schedule, tried[2]);
    EXPECT_DOUBLE_EQ(choice.current().measured_seconds(), 2) << "the time includes forward and backward";
  });
}

// A rank selects its share of the tokens before or after the gate. Under sequence parallelism, both choices result in
// the same graphs.
TEST(ScheduleChoice, HasOneCandidateForEqualGraphsAndKeepsTheRecipesSchedule) {
  const Recipe recipe = small_recipe({"parallel.tp=2", "parallel.sp=true", "schedule.moe.duplicates=auto"});
  on_ranks(2, [&](const comm::ProcessGroup& world) {
    TrainingRun run(recipe, world);
    const auto allowed = legal(recipe);
    const auto candidates =
        predicted_schedules(recipe, Registry(), Predictor(recipe, run.instance.mesh), world, allowed);
    std::set<std::string> graphs;
    for (const ScheduleCandidate& c : candidates) EXPECT_TRUE(graphs.insert(c.graphs).second) << to_string(c.schedule);
    EXPECT_LT(candidates.size(), allowed.size());
    EXPECT_EQ(std::ranges::count(candidates, recipe.schedule.moe.settled(), &ScheduleCandidate::schedule), 1);
  });
}

// S1 and S2 gather the same number of tokens after the experts in forward. In backward, S2 also gathers the gradients
// of the routing weights. With one chunk, S2 equals `drop`.
TEST(ScheduleChoice, PredictsParmsS1AndS2AlikeIfTheySendTheSameBytes) {
  const Recipe recipe = small_recipe(
      {"parallel.tp=2", "parallel.ep=2", "schedule.moe.duplicates=auto", "schedule.moe.esp_exchange=direct"});
  on_ranks(4, [&](const comm::ProcessGroup& world) {
    TrainingRun run(recipe, world);
    Predictor predictor(recipe, run.instance.mesh);
    predictor.rates = machine(0, 1e6, 1e12);
    std::map<Duplicates, double> seconds;
    for (const ScheduleCandidate& c : predicted_schedules(recipe, Registry(), predictor, world, legal(recipe)))
      seconds[c.schedule.duplicates] = c.predicted;
    ASSERT_TRUE(seconds.contains(Duplicates::pause_before_gate) && seconds.contains(Duplicates::drop));
    EXPECT_FALSE(seconds.contains(Duplicates::pause_after_gate));
    EXPECT_NEAR(seconds[Duplicates::drop] / seconds[Duplicates::pause_before_gate], 1, 0.05);
  });
}

Recipe cut_recipe(const Overrides& more = {}) {
  Overrides all{"parallel.ep=2", "model.context=32", "schedule.moe.chunk_by=tokens", "train.steps=100",
                "schedule.moe.trial_share=0.12"};
  all.insert(all.end(), more.begin(), more.end());
  return small_recipe(all);
}

double best_at_five(const MoeSchedule& s) { return 1 + 0.1 * std::abs(static_cast<double>(s.chunks) - 5); }

TEST(ScheduleChoice, Algorithm1FindsUnpredictedChunks) {
  const Recipe recipe = cut_recipe();
  on_ranks(2, [&](const comm::ProcessGroup& world) {
    TrainingRun run(recipe, world);
    ScheduleChoice choice(recipe, run.instance, Predictor(recipe, run.instance.mesh), world);
    const MoeSchedule predicted = choice.candidates()[0].schedule;
    EXPECT_TRUE(choice.searching()) << "only the number of chunks is open";
    const auto tried = try_all(choice, best_at_five);
    EXPECT_EQ(tried.front(), predicted);
    EXPECT_LE(tried.size(), 12u) << "the limit is 12% of 100 steps, 12 trials";
    EXPECT_EQ(choice.current().schedule.chunks, 5);
    EXPECT_GT(choice.current().predicted, 0);
  });
}

TEST(ScheduleChoice, Algorithm1EndsWithItsTrials) {
  const Recipe recipe = cut_recipe({"schedule.moe.trial_share=0.03"});
  on_ranks(2, [&](const comm::ProcessGroup& world) {
    TrainingRun run(recipe, world);
    ScheduleChoice choice(recipe, run.instance, Predictor(recipe, run.instance.mesh), world);
    const auto tried = try_all(choice, best_at_five);
    EXPECT_EQ(tried.size(), 3u);
    const auto fastest = std::ranges::min_element(tried, {}, best_at_five);
    EXPECT_EQ(choice.current().schedule, *fastest);
  });
}

// If minima were compared, 12 chunks would win because of one fast step.
TEST(ScheduleChoice, Algorithm1ComparesMedians) {
  const Recipe recipe = cut_recipe({"schedule.moe.trial_share=0.5"});
  on_ranks(2, [&](const comm::ProcessGroup& world) {
    TrainingRun run(recipe, world);
    ScheduleChoice choice(recipe, run.instance, Predictor(recipe, run.instance.mesh), world);
    int twelves = 0;
    const auto tried = try_all(
        choice, [&](const MoeSchedule& s) { return s.chunks == 12 && ++twelves == 2 ? 0.01 : best_at_five(s); });
    EXPECT_EQ(twelves, 3) << "every number is tried equally often";
    for (const MoeSchedule& s : tried) EXPECT_EQ(std::ranges::count(tried, s), 3) << to_string(s);
    EXPECT_EQ(choice.current().schedule.chunks, 5);
  });
}

// MPMoE searches for the best number of chunks of each strategy, and then for the best pair. S2 is the slowest strategy
// at the number of chunks that is best for the other strategies.
TEST(ScheduleChoice, Algorithm1FindsTheChunksOfEachStrategy) {
  const Recipe recipe = cut_recipe({"train.steps=400", "schedule.moe.trial_share=0.5", "schedule.moe.memory_reuse=auto",
                                    "schedule.moe.memory_limit=100000000"});
  on_ranks(2, [&](const comm::ProcessGroup& world) {
    TrainingRun run(recipe, world);
    ScheduleChoice choice(recipe, run.instance, Predictor(recipe, run.instance.mesh), world);
    const auto distance = [](const MoeSchedule& s, int64_t best) {
      return std::abs(static_cast<double>(s.chunks - best));
    };
    const auto tried = try_all(choice, [&](const MoeSchedule& s) {
      return s.memory_reuse == moe::ReuseStrategy::s2 ? 1 + 0.5 * distance(s, 11) : 2 + 0.1 * distance(s, 3);
    });
    EXPECT_LE(tried.size(), 200u);
    for (const moe::ReuseStrategy strategy : {moe::ReuseStrategy::s1, moe::ReuseStrategy::s3, moe::ReuseStrategy::s4})
      EXPECT_TRUE(std::ranges::any_of(tried, [&](const MoeSchedule& s) {
        return s.memory_reuse == strategy && s.chunks == 3;
      })) << "each strategy must get its own best number of chunks";
    EXPECT_EQ(choice.current().schedule.memory_reuse, moe::ReuseStrategy::s2);
    EXPECT_EQ(choice.current().schedule.chunks, 11);
  });
}

TEST(ScheduleChoice, FindsTheChunksOfTheFastestFamily) {
  const Recipe recipe =
      open_recipe({"parallel.ep=2", "model.context=32"}, {"train.steps=100", "schedule.moe.trial_share=0.4"});
  on_ranks(2, [&](const comm::ProcessGroup& world) {
    TrainingRun run(recipe, world);
    ScheduleChoice choice(recipe, run.instance, Predictor(recipe, run.instance.mesh), world);
    const auto tried = try_all(
        choice, [](const MoeSchedule& s) { return best_at_five(s) + (s.chunk_by == ChunkBy::tokens ? 0 : 10); });
    EXPECT_LE(tried.size(), 40u);
    EXPECT_EQ(distinct(tried, [](const MoeSchedule& s) { return s.chunk_by; }).size(), 4u)
        << "a schedule of each family must be tried";
    EXPECT_EQ(choice.current().schedule.chunk_by, ChunkBy::tokens);
    EXPECT_EQ(choice.current().schedule.chunks, 5);
  });
}

TEST(ScheduleChoice, ContinuesAfterAnInterruption) {
  for (const Recipe& recipe :
       {cut_recipe(), open_recipe({"parallel.ep=2"}, {"train.steps=100", "schedule.moe.trial_share=0.2"})})
    on_ranks(2, [&](const comm::ProcessGroup& world) {
      TrainingRun run(recipe, world);
      const Predictor predictor(recipe, run.instance.mesh);
      ScheduleChoice whole(recipe, run.instance, predictor, world);
      const auto all = try_all(whole, best_at_five);
      for (int64_t before = 0; before < std::ssize(all); ++before) {
        ScheduleChoice begun(recipe, run.instance, predictor, world), resumed(recipe, run.instance, predictor, world);
        auto tried = try_all(begun, best_at_five, before);
        ASSERT_TRUE(resumed.resume({}, begun.state()));
        EXPECT_EQ(resumed.trials_left(), begun.trials_left());
        const auto rest = try_all(resumed, best_at_five);
        tried.insert(tried.end(), rest.begin(), rest.end());
        EXPECT_EQ(tried, all) << "interrupted after " << before;
        EXPECT_EQ(resumed.state(), whole.state());
      }
    });
}

TEST(ScheduleChoice, SearchesOnlyMicroBatchesOutsideTheKnownRange) {
  on_ranks(2, [&](const comm::ProcessGroup& world) {
    const auto chosen = [&](const Recipe& recipe, const std::string& text, const std::string& state, size_t& trials) {
      TrainingRun run(recipe, world);
      ScheduleChoice choice(recipe, run.instance, Predictor(recipe, run.instance.mesh), world);
      if (!text.empty()) {
        EXPECT_TRUE(choice.resume(text, state));
      }
      trials = try_all(choice, best_at_five).size();
      return std::pair{to_string(choice.current().schedule), choice.state()};
    };
    size_t trials = 0;
    const auto [text, state] = chosen(cut_recipe({"schedule.moe.trial_share=0.5"}), {}, {}, trials);
    EXPECT_GT(trials, 3u);
    const auto same = chosen(cut_recipe({"schedule.moe.trial_share=0.5"}), text, state, trials);
    EXPECT_EQ(trials, 0u) << "the times of this micro-batch are known";
    EXPECT_EQ(same.first, text);
    const auto larger = chosen(cut_recipe({"schedule.moe.trial_share=0.5", "batch.micro=4"}), text, state, trials);
    EXPECT_GT(trials, 0u);
    EXPECT_EQ(larger.first, text) << "5 chunks are best for the larger micro-batch, too";
    chosen(cut_recipe({"schedule.moe.trial_share=0.5", "batch.micro=3", "batch.global=12"}), larger.first,
           larger.second, trials);
    EXPECT_EQ(trials, 0u) << "5 chunks are best for a smaller and a larger micro-batch";
  });
}

TEST(ScheduleChoice, ResumesOnlyAllowedSchedules) {
  const Recipe recipe = cut_recipe();
  on_ranks(2, [&](const comm::ProcessGroup& world) {
    TrainingRun run(recipe, world);
    const Predictor predictor(recipe, run.instance.mesh);
    ScheduleChoice choice(recipe, run.instance, predictor, world);
    EXPECT_FALSE(choice.resume("duplicates drop, overlap sequential, chunk_by none, chunks 1", ""));
    EXPECT_FALSE(choice.resume("", ""));
    EXPECT_TRUE(choice.resume("duplicates pause_before_gate, overlap sequential, chunk_by tokens, chunks 3", ""))
        << "runs of earlier versions saved this form";
    EXPECT_TRUE(choice.made());
    EXPECT_EQ(choice.current().schedule.chunks, 3);
  });
}

// Loads of four experts on two ranks. Under the even load, each expert gets 16 rows. Under the skewed load, each of the
// first two gets 32 rows.
const ExpertShares even_load{{0.25, 0.25, 0.25, 0.25}}, skewed_load{{0.5, 0.5, 0, 0}};

// Calls `body` with a function that makes a choice between grouped and dense products. Dense products are four times as
// fast as grouped ones, and are used if the experts with rows have at least 24 rows on average.
template <class F>
void with_choice_of_gemms(const F& body) {
  const Recipe recipe = small_recipe(
      {"parallel.ep=2", "schedule.moe.gemms=auto", "schedule.moe.dense_rows=24", "schedule.moe.trial_share=0"});
  on_ranks(2, [&](const comm::ProcessGroup& world) {
    TrainingRun run(recipe, world);
    Predictor predictor(recipe, run.instance.mesh);
    predictor.rates = machine(1e-7, 1e12, 1e8);
    predictor.rates.dense.fill(schedule::TimeCurve::linear(1e-7, 4e8));
    body([&] { return ScheduleChoice(recipe, run.instance, predictor, world); });
  });
}

TEST(ScheduleChoice, IsMadeAnewWhenTheLoadDrifts) {
  with_choice_of_gemms([](const auto& make) {
    ScheduleChoice choice = make();
    ASSERT_TRUE(choice.made());
    EXPECT_EQ(choice.current().schedule.gemms, moe::Gemms::grouped) << "no expert gets enough rows for dense products";
    const auto even = choice.redecide(10, even_load);
    ASSERT_TRUE(even);
    EXPECT_FALSE(even->switched);
    EXPECT_DOUBLE_EQ(even->imbalance, 1);
    const auto skewed = choice.redecide(20, skewed_load);
    ASSERT_TRUE(skewed);
    EXPECT_TRUE(skewed->switched);
    EXPECT_DOUBLE_EQ(skewed->imbalance, 2);
    EXPECT_GT(skewed->gain, 0.05);
    EXPECT_TRUE(skewed->same_bits) << "grouped and dense products are bitwise identical on a CPU";
    EXPECT_EQ(choice.current().schedule.gemms, moe::Gemms::by_load);
    EXPECT_EQ(moe::to_string(choice.current().schedule), skewed->fastest);
    EXPECT_FALSE(choice.redecide(30, {})) << "a step without tokens decides nothing";
    EXPECT_FALSE(choice.redecide(40, skewed_load)->switched);
  });
}

TEST(ScheduleChoice, KeepsItsSwitchesWhenItIsResumed) {
  with_choice_of_gemms([](const auto& make) {
    ScheduleChoice choice = make();
    choice.redecide(20, skewed_load);
    const std::string chosen = moe::to_string(choice.current().schedule), state = choice.state();
    EXPECT_NE(state.find("\"step\":20"), std::string::npos) << state;
    ScheduleChoice resumed = make();
    ASSERT_TRUE(resumed.resume(chosen, state));
    EXPECT_TRUE(resumed.made());
    EXPECT_EQ(resumed.current().schedule, choice.current().schedule);
    EXPECT_EQ(resumed.state(), state);
    for (const ExpertShares& load : {even_load, skewed_load}) {
      const auto first = choice.redecide(30, load), second = resumed.redecide(30, load);
      ASSERT_TRUE(first && second);
      EXPECT_EQ(first->fastest, second->fastest);
      EXPECT_EQ(first->gain, second->gain);
    }
  });
}

TEST(ScheduleChoice, PricesHundredsOfSchedulesInTwoRounds) {
  // There are many tokens, so the share of tokens with both experts on one rank is close to its expected value.
  const Recipe recipe = open_recipe({"parallel.tp=2", "parallel.ep=2", "model.context=128"},
                                    {"schedule.moe.rows=auto", "schedule.moe.order=auto",
                                     "schedule.moe.memory_reuse=auto", "schedule.moe.trial_share=0"});
  EXPECT_GT(legal(recipe).size(), 500u);
  const auto order = predicted_on(machine(1e-6, 1e6, 1e12), recipe);
  EXPECT_LT(order.size(), 350u);
  EXPECT_EQ(distinct(order, [](const MoeSchedule& s) { return to_string(s); }).size(), order.size());
  EXPECT_EQ(order.front().rows, ep::RowOf::token)
      << "a slow link favours fewer rows, but the best schedule is: " << to_string(order.front());
}

TEST(ScheduleChoice, PredictionsChangeNoBitOfTheRun) {
  const Recipe recipe = open_recipe({"parallel.tp=2", "parallel.ep=2"}, {"schedule.moe.memory_reuse=none"});
  on_ranks(4, [&](const comm::ProcessGroup& world) {
    const FixedSource source = documents_of(recipe);
    TrainingRun plain(recipe, world), chosen(recipe, world);
    ScheduleChoice choice(recipe, chosen.instance, Predictor(recipe, chosen.instance.mesh), world);
    chosen.instance.reschedule(recipe.schedule.moe.settled());
    expect_bitwise(trajectory(plain, source, 2), trajectory(chosen, source, 2));
  });
}

TEST(ScheduleChoice, EveryEligibleScheduleGivesTheSameLosses) {
  const Recipe recipe = open_recipe({"parallel.tp=2", "parallel.ep=2"});
  ASSERT_GT(legal(recipe).size(), 1u);
  on_ranks(4, [&](const comm::ProcessGroup& world) {
    const FixedSource source = documents_of(recipe);
    TrainingRun plain(recipe, world), trying(recipe, world);
    for (const MoeSchedule& s : legal(recipe)) {
      trying.instance.reschedule(s);
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

ExitCode train_14_steps(const Scratch& folder) {
  const comm::World world;
  const Overrides keys{"run.dir=" + folder.path(), "train.steps=14", "checkpoint.every=2", "checkpoint.keep=0",
                       "train.precision=f32"};
  return Trainer(open_recipe(keys, {"schedule.moe.trial_share=0.5"}), Registry(), world, RunSchedule::make).run();
}

void copy_checkpoint(const std::string& name, const Scratch& from, const Scratch& to) {
  std::filesystem::create_directories(to / "checkpoints");
  std::filesystem::copy(from / ("checkpoints/" + name), to / ("checkpoints/" + name),
                        std::filesystem::copy_options::recursive);
}

TEST(Trainer, ResumedAfterItsChoiceIsBitwiseIdentical) {
  const Scratch whole, resumed;
  const auto shard = [](const Scratch& folder) {
    std::ostringstream bytes;
    bytes << std::ifstream(folder / "checkpoints/step-00000014/shard-00000-of-00001.safetensors").rdbuf();
    return bytes.str();
  };
  ASSERT_EQ(train_14_steps(whole), ExitCode::done);
  copy_checkpoint("step-00000010", whole, resumed);
  ASSERT_EQ(train_14_steps(resumed), ExitCode::done);
  EXPECT_NE(log_of(resumed).find("schedule.moe: keeps the earlier choice: "), std::string::npos) << log_of(resumed);
  ASSERT_GT(shard(whole).size(), 1000u);
  EXPECT_TRUE(shard(whole) == shard(resumed));
}

TEST(Trainer, ResumedBeforeItsChoiceContinuesItsTrials) {
  const Scratch whole, resumed;
  ASSERT_EQ(train_14_steps(whole), ExitCode::done);
  copy_checkpoint("step-00000004", whole, resumed);  // 3 of 7 trials
  ASSERT_EQ(train_14_steps(resumed), ExitCode::done);
  EXPECT_NE(log_of(resumed).find("schedule.moe: continues to choose, with at most 4 more trial steps"),
            std::string::npos)
      << log_of(resumed);
  EXPECT_NE(log_of(resumed).find("schedule.moe: chosen "), std::string::npos) << log_of(resumed);
}

TEST(Trainer, DecidesAnewAtStepsOfReDecision) {
  const Scratch folder;
  const comm::World world;
  const Overrides keys{"run.dir=" + folder.path(), "train.steps=6", "train.precision=f32"};
  ASSERT_EQ(Trainer(open_recipe(keys, {"schedule.moe.trial_share=0", "schedule.moe.redecide_every=3"}), Registry(),
                    world, RunSchedule::make)
                .run(),
            ExitCode::done);
  const std::string log = log_of(folder);
  for (const char* step : {"re-decision of step 3: ", "re-decision of step 6: "})
    EXPECT_NE(log.find(std::string("schedule.moe: ") + step), std::string::npos) << log;
  EXPECT_EQ(log.find("re-decision of step 1: "), std::string::npos) << log;
}

TEST(Trainer, KeepsItsChoiceAfterAResume) {
  const Scratch folder;
  const auto train = [&](int steps) {
    const comm::World world;
    const Overrides keys{"run.dir=" + folder.path(), cat("train.steps=", steps)};
    return Trainer(open_recipe(keys, {"schedule.moe.trial_share=0.5"}), Registry(), world, RunSchedule::make).run();
  };
  ASSERT_EQ(train(12), ExitCode::done);
  const std::string first = log_of(folder);
  const size_t at = first.find("schedule.moe: chosen ");
  ASSERT_NE(at, std::string::npos) << first;
  const size_t begin = at + std::string("schedule.moe: chosen ").size();
  const std::string chosen = first.substr(begin, first.find(':', begin) - begin);
  ASSERT_EQ(train(14), ExitCode::done);
  EXPECT_NE(log_of(folder).find("schedule.moe: keeps the earlier choice: " + chosen), std::string::npos)
      << log_of(folder);
}

}  // namespace
}  // namespace hexad::tests
