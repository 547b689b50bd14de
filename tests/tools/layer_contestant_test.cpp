// Graphs that the benchmark moe_layer measures and predicts.
#include "tools/bench/layer_contestant.h"

#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "tests/training/training.h"

namespace hexad::tests {

using namespace base;
using namespace train;
namespace {

constexpr bench::LayerContestant::Options both_passes{.forward = false, .exchange = false, .block = false, .rest = 0};

// Returns the lines of the backward pass on rank 0 after two steps. The layer is on 2 x 2 tp and ep ranks, with this
// choice of schedule.moe.duplicates. Each line is a task with its measured and predicted times.
std::vector<std::string> backward_tasks(const std::string& duplicates) {
  std::vector<std::string> tasks;
  on_ranks(4, [&](const comm::ProcessGroup& world) {
    const Recipe recipe = small_recipe({"parallel.tp=2", "parallel.ep=2", "model.moe.aux_loss.coefficient=0",
                                        "schedule.moe.esp_exchange=direct", "schedule.moe.duplicates=" + duplicates});
    const mesh::Mesh mesh(world, recipe.parallel.sizes());
    bench::LayerContestant layer("layer", recipe, mesh, both_passes);
    layer.step();
    layer.step();
    const plan::Predictor predictor(recipe, mesh);
    layer.predict(&predictor);
    std::ostringstream lines;
    layer.list(1, "backward", lines);
    if (world.rank() != 0) return;
    std::istringstream read(lines.str());
    for (std::string line; std::getline(read, line);) tasks.push_back(line);
  });
  return tasks;
}

TEST(LayerContestant, BackwardOfParmsS1EndsWithTheAllGatherOfShares) {
  const std::vector<std::string> tasks = backward_tasks("pause_before_gate");
  ASSERT_GE(tasks.size(), 2u);
  const auto fields = [](const std::string& line) {
    std::vector<std::string> all;
    std::istringstream read(line);
    for (std::string field; std::getline(read, field, '\t');) all.push_back(field);
    return all;
  };
  const std::vector<std::string> last = fields(tasks.back());
  ASSERT_EQ(last.size(), 7u) << "expected measured and predicted times: " << tasks.back();
  EXPECT_EQ(last[1], "shares.all_gather");
  const auto seconds = [&](const std::string& line, size_t field) { return std::stod(fields(line).at(field)); };
  for (size_t i = 0; i + 1 < tasks.size(); ++i) {
    EXPECT_LE(seconds(tasks[i], 4), seconds(tasks.back(), 3) + 1e-6) << "measured: " << tasks[i];
    EXPECT_LE(seconds(tasks[i], 6), seconds(tasks.back(), 5) + 1e-6) << "predicted: " << tasks[i];
  }
}

TEST(LayerContestant, ScheduleS2HasNoSecondBackwardGraph) {
  const std::vector<std::string> tasks = backward_tasks("pause_after_gate");
  EXPECT_FALSE(tasks.empty());
  for (const std::string& task : tasks) EXPECT_EQ(task.find("shares.all_gather"), std::string::npos) << task;
}

TEST(LayerContestant, NamesTheLinksThatPredictionsAssume) {
  on_ranks(2, [](const comm::ProcessGroup& world) {
    const Recipe recipe = small_recipe({"parallel.ep=2", "model.moe.aux_loss.coefficient=0"});
    const mesh::Mesh mesh(world, recipe.parallel.sizes());
    bench::LayerContestant layer("layer", recipe, mesh, both_passes);
    layer.step();
    plan::Predictor predictor(recipe, mesh);
    layer.predict(&predictor);
    EXPECT_EQ(layer.assumed_links(), std::set<std::string>{"all_to_all of ep, 2 ranks, within a node"});
    predictor.rates.links = {{schedule::TaskKind::all_to_all, "ep", 2, false, schedule::TimeCurve::linear(1e-4, 1e9)}};
    layer.predict(&predictor);
    EXPECT_EQ(layer.assumed_links(), std::set<std::string>{});
  });
}

TEST(LayerContestant, GraphOfAnUnexpectedPassThrows) {
  on_ranks(1, [&](const comm::ProcessGroup& world) {
    const Recipe recipe = small_recipe({"model.moe.aux_loss.coefficient=0"});
    const mesh::Mesh mesh(world, recipe.parallel.sizes());
    bench::LayerContestant layer("layer", recipe, mesh, both_passes);
    device::DeviceContext context;
    const auto message = [&](schedule::PassKind kind) -> std::string {
      try {
        layer.run({"moe", kind}, {}, context);
      } catch (const std::logic_error& error) {
        return error.what();
      }
      return "no error";
    };
    EXPECT_EQ(message(schedule::PassKind::forward), "no error");
    EXPECT_NE(message(schedule::PassKind::backward).find("the graph 'moe backward' runs in forward; expected backward"),
              std::string::npos);
    EXPECT_NE(message(schedule::PassKind::gradient_of_shares)
                  .find("the graph 'moe gradient of shares' runs in forward; expected backward"),
              std::string::npos);
  });
}

}  // namespace
}  // namespace hexad::tests
