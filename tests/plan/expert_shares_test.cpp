// Files with loads of experts, and their effect on estimates.
#include "tools/plan/expert_shares.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "framework/telemetry/metrics_json.h"
#include "tests/training/training.h"
#include "tools/plan/memory_estimate.h"
#include "tools/plan/step_forecast.h"

namespace hexad::tests {

using namespace plan;

namespace {

const std::string yaml =
    "model: {layers: 3, hidden: 64, heads: 4, context: 128, vocab: 128,\n"
    "        moe: {experts: 4, top_k: 2, expert_hidden: 256, dense_layers: 1}}\n"
    "batch: {global: 8, micro: 4}\n"
    "train: {steps: 10}\n"
    "data: {synthetic: true}\n";

std::string file_of(const std::string& text) {
  const std::string path = ::testing::TempDir() + "expert_shares_test.txt";
  std::ofstream(path) << text;
  return path;
}

ExpertShares shares_of(const std::string& text) { return read_expert_shares(file_of(text), recipe_of(yaml).model); }

void expect_refused(const std::string& text, int line, const std::string& part) {
  const std::string message = message_of(ExitCode::usage, [&] { shares_of(text); });
  EXPECT_NE(message.find("expert_shares_test.txt:" + std::to_string(line) + ": "), std::string::npos) << message;
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

std::string metrics_line(int64_t step, std::vector<std::vector<double>> loads) {
  telemetry::StepMetrics metrics;
  metrics.step = step;
  metrics.expert_load = std::move(loads);
  return telemetry::to_json_line(metrics) + "\n";
}

TEST(ExpertShares, AreReadFromTokensOrShares) {
  const ExpertShares expected{{0.4, 0.3, 0.2, 0.1}, {0.25, 0.25, 0.25, 0.25}};
  EXPECT_EQ(shares_of("# tokens\n4, 3, 2, 1\n\n8 8 8 8  # even\n"), expected);
  const ExpertShares alike = shares_of("1,1,0,0\n");
  ASSERT_EQ(alike.size(), 2U) << "the first of three layers is dense";
  EXPECT_EQ(alike[0], (std::vector<double>{0.5, 0.5, 0, 0}));
  EXPECT_EQ(alike[1], alike[0]) << "one line is for all layers";
}

TEST(ExpertShares, ComeFromTheLastStepOfMetrics) {
  const std::vector<double> first{0.25, 0.25, 0.25, 0.25}, last{0.5, 0.25, 0.125, 0.125};
  const ExpertShares read = shares_of(metrics_line(1, {{}, first, first}) + metrics_line(2, {{}, last, first}) +
                                      metrics_line(3, {}) + "{\"kind\": \"st");  // cut off by a crash
  ASSERT_EQ(read.size(), 2U);
  for (size_t e = 0; e < 4; ++e) {
    EXPECT_NEAR(read[0][e], last[e], 1e-3);
    EXPECT_NEAR(read[1][e], first[e], 1e-3);
  }
}

TEST(ExpertShares, DoNotDependOnRowsOfDenseLayers) {
  const std::vector<double> first{0.25, 0.25, 0.25, 0.25}, second{0.5, 0.25, 0.125, 0.125};
  const ExpertShares of_older_program = shares_of(metrics_line(1, {first, second}));
  EXPECT_EQ(shares_of(metrics_line(1, {{}, first, second})), of_older_program);
  EXPECT_EQ(of_older_program, (ExpertShares{first, second}));
}

TEST(ExpertShares, SharesOfAMeasuredLayerDoNotApplyToOtherLayers) {
  const std::vector<double> loads{0.5, 0.25, 0.125, 0.125};
  expect_refused(metrics_line(1, {{}, loads, {}}), 1,
                 "loads of 1 layer; expected 2 (the model's MoE layers), or a text file with one line for all layers");
  const auto model = recipe_of(yaml, {"model.layers=2"}).model;
  EXPECT_EQ(read_expert_shares(file_of(metrics_line(1, {{}, loads})), model), (ExpertShares{loads}));
}

TEST(ExpertShares, ThrowWithTheLineOfTheMistake) {
  expect_refused("1 1 1 1\n1 1 one 1\n", 2, "'one' is not a number");
  expect_refused("1 1 1 1\n1 1 1\n", 2, "3 loads; expected 4");
  expect_refused("1 1 1 -1\n", 1, "a load is -1");
  expect_refused("# none\n0 0 0 0\n", 2, "all loads of a layer are 0");
  expect_refused("1e308 1e308 1e308 1e308\n", 1, "add up to infinity");
  expect_refused("3 1 0 0\n", 1, "expert 0 has 0.75");
  expect_refused("1 1 1 1\n1 1 1 1\n1 1 1 1\n", 3, "loads of 3 layers; expected 2 (the model's MoE layers)");
  expect_refused("", 1, "no loads");
  expect_refused(metrics_line(1, {}), 1, "no step has expert_load");
  expect_refused(metrics_line(1, {}) + "{torn\n" + metrics_line(2, {}), 2,
                 "the line is not valid JSON, expected a record of metrics.jsonl");
}

TEST(ExpertShares, NameTheLegalWordsIfTheFileIsMissing) {
  const std::string message = message_of(ExitCode::usage, [] { read_expert_shares("p98", recipe_of(yaml).model); });
  EXPECT_NE(message.find("'p98'"), std::string::npos) << message;
  EXPECT_NE(message.find("expected even, p99, worst, or a file"), std::string::npos) << message;
}

TEST(ExpertShares, LoadTheRanksOfTheirExperts) {
  const Recipe r = recipe_of(yaml, {"parallel.ep=2"}, 2);
  const mesh::Layout layout(r.parallel.sizes(), 2);
  const RoutingLoad second(shares_of("0 0 1 1\n"));
  const auto of_rank = [&](int rank, const RoutingLoad& load) {
    return estimate_memory(r, {}, layout, rank, load).activations;
  };
  EXPECT_GT(of_rank(1, second), of_rank(1, RoutingLoad::even));
  EXPECT_LT(of_rank(0, second), of_rank(0, RoutingLoad::even));
  EXPECT_EQ(of_rank(1, second), of_rank(1, RoutingLoad::one_rank));
  EXPECT_EQ(estimate_memory(r, {}, 2, second).total, estimate_memory(r, {}, layout, 1, second).total);

  Cluster cluster;
  Machine& m = cluster.machine.emplace();
  m.nodes = 1, m.ranks_per_node = 2, m.sms = 132;
  m.memory = config::ByteSize(80'000'000'000);
  m.peak.f32 = 67e12;
  m.memory_bandwidth = 3.35e12;
  m.inside = MachineLink{450e9, 3.4e-6, {}};
  const StepForecast step = forecast_step(r, {}, layout, StepPrices(cluster, 2), second);
  EXPECT_EQ(step.stages.front().rank, 1) << "the rank with the loaded experts is simulated";
}

}  // namespace
}  // namespace hexad::tests
