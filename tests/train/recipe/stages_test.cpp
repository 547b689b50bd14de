// Stages of training: their keys, their steps, and errors with file and line.
#include <gtest/gtest.h>

#include "optim/lr_schedule.h"
#include "tests/training/training.h"
#include "tools/train/recipe/cautions.h"
#include "tools/train/recipe/recipe_comparison.h"
#include "tools/train/recipe/renamed_keys.h"
#include "tools/train/recipe/stage_documents.h"
#include "tools/train/recipe/training_stages.h"

namespace hexad::tests {

using namespace layers;
using namespace train;
namespace {

constexpr const char* yaml = R"(model:
  hidden: 32
  heads: 4
  vocab: 97
  moe: {experts: 8}
optim: {lr: 0.01, warmup: 2}
batch: {global: 8, micro: 2}
parallel: {ep: 2}
data: {synthetic: true}
stages:
  - context: 16
    steps: 3
  - context: 64
    steps: 4
    lr: 0.002
    recompute: block
    batch: {micro: 1}
    parallel: {cp: 2}
  - steps: 2
    parallel: {ep: 4}
)";

config::Document document(const std::vector<std::string>& overrides = {}) {
  return config::parse(yaml, "r.yaml", overrides);
}
Recipe loaded(const std::vector<std::string>& overrides = {}, int64_t world = 4) {
  return load_to_train(document(overrides), Registry(), world);
}
std::string refused(const std::vector<std::string>& overrides, int64_t world = 4) {
  return message_of(ExitCode::usage, [&] { loaded(overrides, world); });
}
std::string refused_text(const std::string& text) {
  return message_of(ExitCode::usage, [&] { load_to_train(config::parse(text, "r.yaml"), Registry(), 4); });
}
std::string replaced(std::string text, const std::string& before, const std::string& after) {
  return text.replace(text.find(before), before.size(), after);
}

TEST(TrainingStages, EachStepBelongsToOneStage) {
  const Recipe r = loaded();
  ASSERT_EQ(stage_count(r), 3);
  EXPECT_EQ(r.train.steps, 9);
  std::vector<int64_t> stages;
  for (int64_t step = 1; step <= 10; ++step) stages.push_back(stage_at(r, step));
  EXPECT_EQ(stages, (std::vector<int64_t>{0, 0, 0, 1, 1, 1, 1, 2, 2, 2}));
  EXPECT_EQ(last_step(r, 0), 3);
  EXPECT_EQ(last_step(r, 1), 7);
  EXPECT_EQ(last_step(r, 2), 9);
  EXPECT_EQ(stage_text(r, 1), "stage 2 of 3: steps 4 to 7");
}

TEST(TrainingStages, RecipeWithoutStagesIsOneStage) {
  for (const char* none : {"train.log_every=10", "stages=[]"}) {
    const Recipe r = small_recipe({none});
    EXPECT_EQ(stage_count(r), 1);
    EXPECT_EQ(stage_at(r, 10), 0);
    EXPECT_EQ(last_step(r, 0), 10);
    EXPECT_EQ(stage_text(r, 0), "");
    EXPECT_EQ(config::write(with_stage(r, 0)), config::write(r));
  }
}

TEST(TrainingStages, KeysOfAStageReplaceThoseOfTheRecipe) {
  const Recipe r = loaded(), first = with_stage(r, 0), second = with_stage(r, 1), third = with_stage(second, 2);
  EXPECT_EQ(config::write(first), config::write(r));
  EXPECT_EQ(first.model.context, 16);
  EXPECT_EQ(first.parallel.ep, 2);
  EXPECT_EQ(second.model.context, 64);
  EXPECT_EQ(second.optim.lr, 0.002);
  EXPECT_EQ(second.recompute, Recompute::block);
  EXPECT_EQ(second.batch.global, 8);
  EXPECT_EQ(second.batch.micro, 1);
  EXPECT_EQ(second.parallel.cp, 2);
  EXPECT_EQ(second.parallel.ep, 2);
  EXPECT_EQ(third.model.context, ModelConfig{}.context);
  EXPECT_EQ(third.optim.lr, 0.01);
  EXPECT_EQ(third.recompute, Recompute::none);
  EXPECT_EQ(third.batch.micro, 2);
  EXPECT_EQ(third.parallel.cp, 1);
  EXPECT_EQ(third.parallel.ep, 4);
  EXPECT_EQ(fewest_ranks(r), 4);
}

TEST(TrainingStages, RotaryPositionsAndSchedulesMayDiffer) {
  const std::string text = replaced(yaml, "    recompute: block", R"(    rotary_theta: 500000
    yarn: {factor: 4}
    rotary_scaling: {original_context: 64}
    schedule: {moe: {chunk_by: tokens, chunks: 2}, pipeline: {kind: gpipe}, worker_lanes: false})");
  const Recipe r = load_to_train(config::parse(text, "r.yaml"), Registry(), 4);
  const Recipe first = with_stage(r, 0), second = with_stage(r, 1), third = with_stage(second, 2);
  EXPECT_EQ(second.model.rotary_theta, 500000);
  EXPECT_EQ(second.model.yarn.factor, 4);
  EXPECT_EQ(second.model.rotary_scaling.original_context, 64);
  EXPECT_EQ(second.schedule.moe.chunk_by, moe::ChunkBy::tokens);
  EXPECT_EQ(second.schedule.pipeline.kind, pp::PipelineKind::gpipe);
  EXPECT_EQ(second.schedule.worker_lanes, false);
  for (const Recipe& plain : {first, third}) {
    EXPECT_EQ(plain.model.rotary_theta, 10000);
    EXPECT_EQ(plain.model.yarn.factor, 1);
    EXPECT_EQ(plain.model.rotary_scaling.original_context, 8192);
    EXPECT_EQ(plain.schedule.moe.chunk_by, moe::ChunkBy::none);
    EXPECT_EQ(plain.schedule.pipeline.kind, pp::PipelineKind::one_f_one_b);
    EXPECT_EQ(plain.schedule.worker_lanes, std::nullopt);
  }
  const std::string written = config::write(second);
  EXPECT_EQ(config::write(load_to_train(config::parse(written, "recipe.yaml"), Registry(), 4)), config::write(r));
}

TEST(TrainingStages, OldNamesAreReadWithAWarning) {
  const std::string text = replaced(yaml, "    recompute: block", "    schedule: {pipeline: {chunks: 4}}");
  std::vector<std::string> said;
  const Recipe r = load_to_train(config::parse(text, "r.yaml"), Registry(), 4,
                                 [&](const std::string& line) { said.push_back(line); });
  EXPECT_EQ(with_stage(r, 0).schedule.pipeline.virtual_stages, 2);
  EXPECT_EQ(with_stage(r, 1).schedule.pipeline.virtual_stages, 4);
  EXPECT_EQ(said, std::vector<std::string>{
                      "r.yaml:16: stages.1.schedule.pipeline.chunks is now called "
                      "stages.1.schedule.pipeline.virtual_stages; the next version will refuse the old name"});
  const config::Document second = document_of_stage(
      with_current_names(config::parse(text, "r.yaml", one_rank_overrides()), [](const std::string&) {}), 2);
  EXPECT_EQ(load_recipe(second, Registry(), 0).schedule.pipeline.virtual_stages, 4);
}

TEST(TrainingStages, IllegalScheduleNamesItsStage) {
  const std::string text = refused_text(replaced(yaml, "    recompute: block", "    schedule: {moe: {chunks: 2}}"));
  EXPECT_EQ(text.find("r.yaml:16: schedule.moe.chunks (2) needs schedule.moe.chunk_by or schedule.moe.overlap"), 0u)
      << text;
  EXPECT_TRUE(text.ends_with(" (stage 2 of 3)")) << text;
}

TEST(TrainingStages, LearningRateFollowsOneScheduleOverAllSteps) {
  const Recipe r = loaded(), plain = load_to_train(document({"stages=[]", "train.steps=9"}), Registry(), 4);
  for (int64_t step = 1; step <= 9; ++step) {
    const int64_t stage = stage_at(r, step);
    const Recipe now = with_stage(r, stage);
    const double whole = optim::learning_rate(plain.optim, step, plain.train.steps);
    EXPECT_DOUBLE_EQ(optim::learning_rate(now.optim, step, now.train.steps), stage == 1 ? 0.2 * whole : whole)
        << "step " << step;
  }
}

TEST(TrainingStages, WrittenRecipeIsReadUnchanged) {
  const Recipe r = loaded();
  for (int64_t stage = 0; stage < 3; ++stage) {
    const std::string text = config::write(with_stage(r, stage));
    EXPECT_EQ(config::write(load_to_train(config::parse(text, "recipe.yaml"), Registry(), 4)), config::write(r));
  }
}

TEST(TrainingStages, CommandLineOverridesStagesInAFile) {
  const Recipe r = loaded({"parallel.cp=1", "stages.0.steps=1", "batch={micro: 2}"});
  EXPECT_EQ(r.train.steps, 7);
  for (const StageConfig& stage : {r.stages[0], r.stages[1]}) {
    EXPECT_EQ(stage.parallel.cp, 1);
    EXPECT_EQ(stage.batch.micro, 2);
  }
  EXPECT_EQ(loaded({"model.context=32", "stages.1.context=128"}).stages[1].context, 128);
  EXPECT_EQ(loaded({"stages.1.rotary_theta=500000"}).stages[1].rotary_theta, 500000);
  EXPECT_EQ(loaded({"schedule.moe.gemms=dense"}).stages[1].schedule.moe.gemms, moe::Gemms::dense);
}

TEST(TrainingStages, OneStageIsACompleteRecipe) {
  const Recipe second = load_recipe(document_of_stage(document(one_rank_overrides()), 2), Registry(), 0);
  EXPECT_TRUE(second.stages.empty());
  EXPECT_EQ(second.model.context, 64);
  EXPECT_EQ(second.train.steps, 9);
  EXPECT_EQ(second.parallel.fewest_ranks(), 1);
  const auto problem = [&](const std::vector<std::string>& overrides, int64_t stage) {
    return message_of(ExitCode::usage, [&] { document_of_stage(document(overrides), stage); });
  };
  EXPECT_EQ(problem({}, 0), "r.yaml:10: the recipe has 3 stages; choose a stage: --stage with a number from 1 to 3");
  EXPECT_EQ(problem({}, 4), "r.yaml:10: --stage is 4; expected a number from 1 to 3");
  EXPECT_EQ(problem({"stages=[]"}, 1), "--stage 1: the recipe has no stages; remove --stage");
  EXPECT_NO_THROW(document_of_stage(document({"stages=[]"}), 0));
}

TEST(TrainingStages, UnknownKeysAndMissingStepsAreRefusedWithTheirLines) {
  EXPECT_EQ(refused_text(replaced(yaml, "    recompute: block", "    optimizer: sgd")),
            "r.yaml:16: stages.1.optimizer is not a key; keys of stages.1: steps, context, rotary_theta, yarn, "
            "rotary_scaling, lr, recompute, batch, parallel, schedule");
  const std::string inside = refused_text(replaced(yaml, "    parallel: {cp: 2}", "    parallel: {order_: auto}"));
  EXPECT_EQ(inside.find("r.yaml:18: stages.1.parallel.order_ is not a key; did you mean order?"), 0u) << inside;
  const std::string without_steps = refused_text(replaced(yaml, "  - steps: 2\n    parallel", "  - parallel"));
  EXPECT_EQ(without_steps, "r.yaml:19: stages.2.steps is not set; it must be at least 1");
}

TEST(TrainingStages, OtherProblemsOfTheRecipeAreListedWithThoseOfStages) {
  const std::string text =
      refused_text(replaced(replaced(yaml, "heads: 4", "head: 4"), "    steps: 3", "    steps: 0"));
  EXPECT_NE(text.find("r.yaml:3: model.head is not a key"), std::string::npos) << text;
  EXPECT_NE(text.find("r.yaml:12: stages.0.steps (0) must be at least 1"), std::string::npos) << text;
}

TEST(TrainingStages, StepsOfTheRunMustBeTheSumOverAllStages) {
  EXPECT_EQ(refused({"train.steps=10"}),
            "command line: train.steps=10: train.steps (10) must be the sum of the steps of all stages (9); remove "
            "train.steps, or change the steps of the stages, such as stages.0.steps");
  EXPECT_NO_THROW(loaded({"train.steps=9"}));
}

TEST(TrainingStages, IllegalLayoutsNameTheLineAndTheStage) {
  const std::string odd = refused_text(replaced(yaml, "context: 64", "context: 66"));
  EXPECT_EQ(odd.find("r.yaml:13: model.context (66) must be divisible by 2 x parallel.cp (2 x 2 = 4), the number of "
                     "pieces of a sequence"),
            0u)
      << odd;
  EXPECT_TRUE(odd.ends_with(" (stage 2 of 3)")) << odd;
  const std::string ranks = refused({}, 6);  // six ranks are not divisible by ep 4 of the third stage
  EXPECT_NE(ranks.find("(stage 3 of 3)"), std::string::npos) << ranks;
}

TEST(TrainingStages, ProblemOfAllStagesIsListedOnce) {
  const std::string text = refused({"model.heads=3"});
  EXPECT_NE(text.find("r.yaml:2: model.hidden (32) must be divisible by model.heads (3)"), std::string::npos) << text;
  EXPECT_EQ(text.find("model.hidden (32)"), text.rfind("model.hidden (32)")) << text;
  EXPECT_EQ(text.find("stage"), std::string::npos) << text;
}

TEST(TrainingStages, LearnedPositionsNeedOneContextAndNoRotaryKeys) {
  const std::string text = refused({"model.position=learned"});
  EXPECT_NE(text.find("r.yaml:13: model.context (64) must be that of the first stage (16)"), std::string::npos) << text;
  EXPECT_NE(text.find("(stage 2 of 3)"), std::string::npos) << text;
  EXPECT_NO_THROW(loaded({"model.position=learned", "model.context=64"}));
  const auto rotary = [](const std::string& key) {
    return refused({"model.position=learned", "model.context=64", key});
  };
  const std::string theta = rotary("stages.2.rotary_theta=500000"), yarn = rotary("stages.2.yarn.factor=4");
  EXPECT_NE(theta.find("model.rotary_theta (500000) must be that of the first stage (10000)"), std::string::npos)
      << theta;
  EXPECT_NE(yarn.find("model.yarn must be that of the first stage"), std::string::npos) << yarn;
  const std::string scaling = rotary("stages.2.rotary_scaling.kind=linear");
  EXPECT_NE(scaling.find("model.rotary_scaling must be that of the first stage"), std::string::npos) << scaling;
}

TEST(TrainingStages, TimelinesMustLieInOneStage) {
  const std::string text = refused({"profile.steps=3..5"});
  EXPECT_NE(text.find("this stage ends after step 3; nearest: 3 (stage 1 of 3)"), std::string::npos) << text;
  EXPECT_NE(refused({"profile.steps=5", "schedule.trace=9"}).find("this stage ends after step 7 (stage 2 of 3)"),
            std::string::npos);
  EXPECT_NO_THROW(loaded({"profile.steps=4..7", "schedule.trace=5"}));
}

TEST(TrainingStages, CautionsNameTheirStageUnlessAllStagesHaveThem) {
  const auto lines = [](const std::vector<std::string>& overrides) { return cautions(loaded(overrides)); };
  EXPECT_TRUE(lines({}).empty());
  const auto one = lines({"stages.2.context=1"});
  ASSERT_EQ(one.size(), 1u);
  EXPECT_TRUE(one[0].starts_with("stage 3 of 3: steps 8 to 9: model.context: 1 lets a token attend only to itself"))
      << one[0];
  const auto all = lines({"model.moe.top_k=1"});
  ASSERT_EQ(all.size(), 1u);
  EXPECT_TRUE(all[0].starts_with("model.moe.normalize: true with model.moe.top_k: 1")) << all[0];
}

TEST(TrainingStages, AddedStagesAreOneChange) {
  const auto changes = changes_of_recipe(loaded({"stages=[]"}), loaded());
  ASSERT_FALSE(changes.empty());
  EXPECT_EQ(changes.back(), "stages: 0 -> 3");
  for (const std::string& line : changes) EXPECT_FALSE(line.starts_with("stages.")) << line;
  EXPECT_EQ(changes_of_recipe(loaded(), loaded({"stages=[]"})).back(), "stages: 3 -> 0");
}

TEST(TrainingStages, ProgramsOfOneLayoutRefuseStages) {
  EXPECT_EQ(
      message_of(ExitCode::usage, [] { require_no_stages(loaded(), "r.yaml"); }),
      "r.yaml: has 3 stages, but only one layout can be measured; set stages=[] and the keys of a stage on the command "
      "line");
  EXPECT_NO_THROW(require_no_stages(loaded({"stages=[]"}), "r.yaml"));
}

TEST(TrainingStages, DataContinueAtTheNextWholeSequence) {
  EXPECT_EQ(continued_sequence(24, 8, 8), 24);
  EXPECT_EQ(continued_sequence(24, 8, 16), 12);
  EXPECT_EQ(continued_sequence(25, 8, 16), 13);
  EXPECT_EQ(continued_sequence(3, 16, 8), 6);
  EXPECT_EQ(continued_sequence(0, 8, 2048), 0);
}

}  // namespace
}  // namespace hexad::tests
