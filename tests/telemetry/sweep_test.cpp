#include "framework/telemetry/sweep.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace hexad::telemetry {
namespace {

StepMetrics step(int64_t number, double seconds, double ep_exposed) {
  StepMetrics s;
  s.step = number, s.tokens = 100 * number, s.loss = 4.0 - 0.1 * static_cast<double>(number);
  s.step_seconds = seconds, s.tokens_per_second = 100 / seconds, s.model_flops_per_second = 1e6 / seconds, s.mfu = 0.5;
  s.memory_peak_bytes = {{"total", 1000 + number}};
  s.comm = {{"ep", {.bytes = 10, .seconds = 0.5, .exposed_seconds = ep_exposed}}, {"tp", {.bytes = 0, .seconds = 0.1}}};
  return s;
}

// Returns steps of 1 s, except the first step, which takes 9 s. In each step, computation waits 0.25 s for ep.
MetricsHistory history_of(int64_t steps) {
  MetricsHistory history;
  for (int64_t n = 1; n <= steps; ++n) history.steps.push_back(step(n, n == 1 ? 9 : 1, 0.25));
  return history;
}

TEST(RunSummary, ExcludesTheFirstStepFromTimes) {
  const RunSummary s = summary_of(history_of(11), 0);
  EXPECT_EQ(s.timed_steps, 10);
  EXPECT_EQ(s.first_timed_step, 2);
  EXPECT_EQ(s.step_seconds.median, 1);
  EXPECT_EQ(s.step_seconds.ninetieth, 1);
  EXPECT_EQ(s.tokens_per_second, 100);
  EXPECT_EQ(s.last_step, 11);
  EXPECT_EQ(s.peak_memory_bytes, 1011);
  EXPECT_EQ(s.exposed_share, (std::map<std::string, double>{{"ep", 0.25}})) << "tp sends nothing";
  EXPECT_TRUE(std::isnan(s.heldout_loss));
}

TEST(RunSummary, CoversTheStepsAfterTheNewestStart) {
  MetricsHistory history = history_of(4);
  history.steps.push_back(step(5, 7, 0)), history.steps.push_back(step(6, 3, 0)),
      history.steps.push_back(step(7, 2, 0));
  const RunSummary s = summary_of(history, 4);
  EXPECT_EQ(s.timed_steps, 2);
  EXPECT_EQ(s.step_seconds.tenth, 2);
  EXPECT_EQ(s.step_seconds.ninetieth, 3);
  EXPECT_EQ(s.exposed_share.at("ep"), 0);
}

TEST(RunSummary, CountsASingleStep) { EXPECT_EQ(summary_of(history_of(1), 0).step_seconds.median, 9); }

Sweep sweep_of(const std::vector<std::string>& rates) {
  Sweep sweep{.runs = {}, .keys = {"optim.lr"}};
  for (size_t i = 0; i < rates.size(); ++i)
    sweep.runs.push_back({.name = "run" + std::to_string(i),
                          .folder = "runs/" + std::to_string(i),
                          .ranks = 2,
                          .layout = "2 ranks: dp 2",
                          .state = "finished",
                          .settings = {{"optim.lr", rates[i]}},
                          .summary = summary_of(history_of(3), 0)});
  return sweep;
}

TEST(Sweep, IsTitledAfterTheDifferentSettings) {
  EXPECT_EQ(title_of(sweep_of({"0.01"})), "run0");
  EXPECT_EQ(title_of(sweep_of({"0.01", "0.03", "0.01"})), "optim.lr: 0.01, 0.03");
  EXPECT_EQ(title_of(sweep_of({"1", "2", "3", "4", "5", "6", "7"})), "optim.lr: 7 values, 1 ... 7");
  Sweep sweep = sweep_of({"1", "2"});
  sweep.runs[1].ranks = 4;
  EXPECT_EQ(title_of(sweep), "optim.lr: 1, 2 on 2, 4 ranks");
  sweep.keys = {"optim.lr", "parallel.ep", "parallel.tp"};
  EXPECT_EQ(title_of(sweep), "2 runs: optim.lr, parallel.ep, parallel.tp on 2, 4 ranks");
  sweep.keys.insert(sweep.keys.end(), {"model.layers", "train.seed"});
  EXPECT_EQ(title_of(sweep), "2 runs: optim.lr, parallel.ep and 3 more settings on 2, 4 ranks");
  sweep.keys.clear();
  EXPECT_EQ(title_of(sweep), "2 runs of one recipe on 2, 4 ranks");
}

TEST(Sweep, EfficiencyComparesFlopsPerRankWithTheFirstRun) {
  Sweep sweep = sweep_of({"1", "2", "3"});
  sweep.runs[1].summary.model_flops_per_second *= 1.5;
  sweep.runs[2].summary.model_flops_per_second *= 1.5;
  sweep.runs[2].ranks = 4;
  EXPECT_EQ(efficiency(sweep, 0), 1);
  EXPECT_EQ(efficiency(sweep, 1), 1.5);
  EXPECT_EQ(efficiency(sweep, 2), 0.75);
  sweep.runs[2].ranks = 0;
  EXPECT_TRUE(std::isnan(efficiency(sweep, 2))) << "a run without a number of ranks has no efficiency";
}

TEST(Sweep, CsvHasALinePerRunAndEmptyCellsForUnknownValues) {
  Sweep sweep = sweep_of({"0.01", "[[0, 1], [2, \"x\"]]"});
  sweep.runs[1].name = "a, \"b\"";
  const std::string csv = csv_of(sweep);
  EXPECT_EQ(csv.substr(0, csv.find('\n')),
            "run,folder,optim.lr,ranks,layout,state,last_step,tokens,loss,heldout_loss,timed_steps,step_seconds_median,"
            "step_seconds_p10,step_seconds_p90,tokens_per_second,model_flops_per_second,mfu,efficiency,"
            "exposed_share_ep,exposed_share,peak_memory_bytes");
  EXPECT_NE(
      csv.find("\nrun0,runs/0,0.01,2,2 ranks: dp 2,finished,3,300,3.7,,2,1,1,1,100,1000000,0.5,1,0.25,0.25,1003\n"),
      std::string::npos)
      << csv;
  EXPECT_NE(csv.find("\n\"a, \"\"b\"\"\",runs/1,\"[[0, 1], [2, \"\"x\"\"]]\","), std::string::npos) << csv;
}

TEST(Sweep, JsonHasTheSameFiguresUnderStableNames) {
  Sweep sweep = sweep_of({"0.01", "none"});
  sweep.runs[1].state = "failed", sweep.runs[1].trouble = "The run failed after step 3: no space";
  const auto json = nlohmann::json::parse(json_of(sweep, "comparison.html"));
  EXPECT_EQ(json.at("page"), "comparison.html");
  EXPECT_EQ(json.at("title"), "optim.lr: 0.01, none");
  EXPECT_EQ(json.at("keys"), nlohmann::json({"optim.lr"}));
  const auto& run = json.at("runs").at(0);
  EXPECT_EQ(run.at("settings").at("optim.lr"), 0.01) << "numeric settings are JSON numbers";
  EXPECT_EQ(json.at("runs").at(1).at("settings").at("optim.lr"), "none");
  EXPECT_EQ(run.at("state"), "finished");
  EXPECT_TRUE(run.at("trouble").is_null());
  EXPECT_EQ(json.at("runs").at(1).at("state"), "failed");
  EXPECT_EQ(json.at("runs").at(1).at("trouble"), "The run failed after step 3: no space");
  EXPECT_EQ(run.at("peak_memory_bytes"), 1003);
  EXPECT_EQ(run.at("step_seconds").at("median"), 1);
  EXPECT_EQ(run.at("exposed_share_by_class").at("ep"), 0.25);
  EXPECT_TRUE(run.at("heldout_loss").is_null());
}

}  // namespace
}  // namespace hexad::telemetry
