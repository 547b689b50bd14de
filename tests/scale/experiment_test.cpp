#include "tools/scale/experiment.h"

#include <gtest/gtest.h>

#include <utility>

#include "framework/base/error.h"
#include "framework/config/recipe_error.h"
#include "tools/scale/points.h"

namespace hexad::scale {
namespace {

std::string refusal(const std::string& text) {
  try {
    parse_experiment(text, "e.yaml");
  } catch (const config::RecipeError& e) {
    return e.what();
  }
  return "accepted";
}

TEST(ScaleExperiment, FileIsReadWithDefaults) {
  const Experiment e = parse_experiment(R"(recipe: ../a.yaml
dir: runs/x
ranks: [1, 2]
scaling: weak
vary:
  - {name: ep, key: parallel.ep, values: [1, 2]}
  - name: schedule
    choices:
      - {name: plain}
      - {name: chunks, set: ["schedule.moe.chunk_by=tokens"], from_ranks: 2}
)",
                                        "recipes/scale/e.yaml");
  EXPECT_EQ(e.config.scaling, Scaling::weak);
  EXPECT_EQ(e.config.ranks, (std::vector<int64_t>{1, 2}));
  ASSERT_EQ(e.config.vary.size(), 2u);
  EXPECT_EQ(e.config.vary[0].values, (std::vector<std::string>{"1", "2"}));
  EXPECT_FALSE(e.config.vary[1].choices[1].exists_on(1));
  EXPECT_TRUE(e.config.vary[1].choices[1].exists_on(2));
  EXPECT_EQ(e.config.steps_of_run(), 25);
  EXPECT_EQ(e.beside("../a.yaml"), "recipes/a.yaml");
}

TEST(ScaleExperiment, WrongKeysAndValuesAreListedTogether) {
  const std::string text = refusal("recipe: a.yaml\ndir: runs/x\nranks: [0]\nrepeats: 0\nstep: 3\n");
  for (const char* line : {"e.yaml:3: ranks.0 (0) must be at least 1", "e.yaml:4: repeats (0) must be at least 1",
                           "e.yaml:5: step is not a key; did you mean steps?"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\nis not in\n" << text;
}

TEST(ScaleExperiment, DurationsHaveLimits) {
  const std::string begin = "recipe: a.yaml\ndir: runs/x\nranks: [1]\n";
  const std::string text = refusal(begin + "minutes: 525601\nsteps: 9000000000000000000\nwarmup_steps: 2000000000\n");
  for (const char* line : {"e.yaml:4: minutes (525601) must be at most 525600",
                           "e.yaml:5: steps (9000000000000000000) must be at most 1000000000",
                           "e.yaml:6: warmup_steps (2000000000) must be at most 1000000000"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\nis not in\n" << text;
  EXPECT_EQ(refusal(begin + "minutes: 525600\n"), "accepted");
}

TEST(ScaleExperiment, ContradictionsAreListedTogether) {
  const std::string text = refusal(R"(recipe: a.yaml
dir: runs/x
ranks: [2, 3]
scaling: weak
cluster_set: [machine.nodes=2]
set: [oops]
vary:
  - name: ranks
    values: [1]
  - name: e p
    values: [1]
    choices:
      - {name: a, from_ranks: 4, to_ranks: 2}
  - name: x
)");
  for (const char* line :
       {"e.yaml:3: ranks.1 (3) must be divisible by the smallest number (2)", "e.yaml:5: cluster_set",
        "e.yaml:6: set.0 (oops) must have the form key.path=value",
        "e.yaml:8: vary.0.name (ranks) is already the name of another axis or of the numbers of ranks",
        "e.yaml:10: vary.1.name (\"e p\") must consist of letters, digits and underscores",
        "has values and choices; expected one of them", "must be at least from_ranks (4)",
        "has neither values nor choices; expected one of them"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\nis not in\n" << text;
}

TEST(ScaleExperiment, KeysThatWouldHaveNoEffectAreRefused) {
  const std::string text = refusal(R"(recipe: a.yaml
dir: runs/x
ranks: [1, 2]
set: [train.steps=5]
vary:
  - {name: folder, key: run.dir, values: [x, y]}
  - {name: lr, key: optim.lr, values: [0.1]}
  - name: speed
    choices:
      - {name: slow, set: [optim.lr=0.2]}
  - name: other
    choices:
      - {name: more, set: [optim.lr=0.2], from_ranks: 4}
)");
  for (const char* line :
       {"e.yaml:4: set.0 (\"train.steps=5\") sets train.steps; expected the keys steps and warmup_steps",
        "e.yaml:6: vary.0.key (run.dir) sets run.dir; expected the key dir",
        "e.yaml:10: vary.2.choices.0.set.0 (\"optim.lr=0.2\") sets optim.lr, which the axis lr also sets"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\nis not in\n" << text;
  EXPECT_EQ(text.find("vary.3"), std::string::npos) << text;  // the choice of vary.3 applies only from 4 ranks on
}

TEST(ScaleExperiment, ShippedExperimentsHaveLegalPoints) {
  const std::pair<const char*, size_t> shipped[] = {
      {"quickstart", 15}, {"two-nodes", 15}, {"mpmoe-nodes", 6}, {"mpmoe-adira", 12}};
  for (const auto& [name, points] : shipped) {
    Experiment e = load_experiment(base::cat(HEXAD_SOURCE_DIR, "/recipes/scale/", name, ".yaml"));
    EXPECT_EQ(load_points(e, points_of(e), train::Extensions()).size(), points) << name;
  }
}

}  // namespace
}  // namespace hexad::scale
