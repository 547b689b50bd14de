// Errors of illegal recipes name the line or override of the key, the reason, and possible corrections.
#include "tools/train/recipe/recipe.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <utility>

#include "framework/base/home.h"
#include "tests/train/recipe/small_yaml.h"
#include "tests/training/training.h"
#include "tools/train/recipe/renamed_keys.h"
#include "tools/train/recipe/training_stages.h"

namespace hexad::tests {

using namespace layers;
using namespace train;
namespace {

TEST(Recipe, LoadsForSeveralNumbersOfRanksWhenValid) {
  for (int64_t world : {0, 1, 2, 4}) EXPECT_EQ(recipe_of(yaml, {}, world).model.hidden, 32);
}

TEST(Recipe, EveryShippedRecipeIsValidForTheRanksOfItsLayout) {
  int checked = 0;
  const std::set<std::string> no_recipes{"clusters", "papers", "scale"};  // their files are not recipes
  for (auto file = std::filesystem::recursive_directory_iterator(HEXAD_SOURCE_DIR "/recipes");
       file != std::filesystem::recursive_directory_iterator(); ++file) {
    if (no_recipes.contains(file->path().filename())) file.disable_recursion_pending();
    if (file->path().extension() != ".yaml") continue;
    const config::Document document = config::load(file->path());
    const int64_t ranks = fewest_ranks(load_recipe(document, Registry(), 0));
    const auto warned = [&](const std::string& text) { ADD_FAILURE() << file->path() << ": " << text; };
    EXPECT_NO_THROW(load_recipe(document, Registry(), ranks, warned)) << file->path();
    ++checked;
  }
  EXPECT_GE(checked, 5);
}

// Collects the keys whose values are texts, and separates paths from other texts.
class TextKeys final : public config::Visitor {
 public:
  std::set<std::string> paths, others;

  void collect(const std::string& path, const config::Field& field, void* value, const config::Type& type) {
    if (type.kind == config::Kind::section) {
      const std::string above = std::exchange(section_, path + ".");
      type.fields(value, *this);
      section_ = above;
    } else if (type.element) {
      type.resize(value, 1);
      collect(path, field, type.at(value, 0), *type.element);
    } else if (type.kind == config::Kind::text) {
      (field.is_path ? paths : others).insert(path);
    }
  }

 private:
  void visit(const config::Field& field, void* value, const config::Type& type) override {
    collect(section_ + std::string(field.key), field, value, type);
  }

  std::string section_;
};

// Fails for a new key whose value is a text. List such a key here. Also mark the key with config::file_path if its
// value is a path.
TEST(Recipe, EveryTextIsMarkedAsAPathOrListed) {
  Recipe recipe;
  TextKeys keys;
  recipe.fields(static_cast<config::Visitor&>(keys));
  EXPECT_EQ(keys.paths, (std::set<std::string>{"model.moe.trace", "train.init_from", "offload.folder",
                                               "schedule.profile", "data.dataset", "data.mixture.dataset", "run.dir"}));
  EXPECT_EQ(keys.others, (std::set<std::string>{"model.mlp", "model.mlp_options.name", "model.moe.router",
                                                "model.moe.router_options.name", "parallel.order", "optim.name",
                                                "optim.options.name", "optim.muon_except", "optim.freeze",
                                                "schedule.moe.order", "data.source", "data.source_options.name",
                                                "data.source_options.value", "checkpoint.resume", "profile.steps",
                                                "run.prompts", "stages.parallel.order", "stages.schedule.moe.order"}));
}

TEST(Recipe, TextOfTheMemoryLimitSaysIfThereIsNone) {
  const auto text = [](const std::string& limit) {
    return recipe_of(yaml, {"memory.limit_bytes=" + limit}).memory.limit_text();
  };
  EXPECT_EQ(text("0"), "0: no limit");
  EXPECT_EQ(text("none"), "none: no limit");
  EXPECT_EQ(text("1536MiB"), "1.50 GiB");
}

TEST(Recipe, LeadingTildeIsTheHomeFolder) {
  const Recipe r = recipe_of(yaml, {"run.dir=~/runs/x", "schedule.profile=~/cluster.yaml"});
  EXPECT_EQ(r.run.dir, base::expand_home("~/runs/x"));
  EXPECT_EQ(r.schedule.profile, base::expand_home("~/cluster.yaml"));
}

TEST(Recipe, UnknownLayersAndKeysAreNamed) {
  EXPECT_EQ(problem({"model.mlp=swigly"}),
            "command line: model.mlp=swigly: model.mlp (swigly) is not a registered layer; registered: swiglu, gelu");
  EXPECT_NE(problem({"model.moe.expert=8"}).find("model.moe.expert"), std::string::npos);
  EXPECT_NE(problem({"model.hiden=8"}).find("hidden"), std::string::npos);
}

// Returns the message with which load_to_train() refuses the recipe with overrides.
std::string refused(const std::vector<std::string>& overrides, int64_t world = 0) {
  return message_of(ExitCode::usage,
                    [&] { load_to_train(config::parse(yaml, "test.yaml", overrides), Registry(), world); });
}

TEST(Recipe, SuggestsTheNearestValueOfTheGivenKey) {
  const auto nearest = [](const std::string& text) {
    return text.substr(std::min(text.find("; nearest: "), text.size()));
  };
  EXPECT_EQ(nearest(refused({"train.steps=20", "optim.warmup=90"})), "; nearest: 20");
  EXPECT_EQ(nearest(refused({"train.steps=20", "optim.warmup=2", "schedule.trace=500"})), "; nearest: 20");
  EXPECT_EQ(nearest(refused({"model.moe.top_k=100"})), "; nearest: 8");
  EXPECT_EQ(nearest(refused({"parallel.pp=100"})), "; nearest: parallel.pp 4");
  EXPECT_EQ(nearest(refused({"parallel.ep=4", "schedule.moe.chunk_by=nodes", "schedule.moe.chunks=500"}, 4)),
            "; nearest: 4");
  EXPECT_EQ(nearest(refused({"parallel.tp=4"}, 6)), "; nearest: parallel.tp 2, with another batch.global");
  EXPECT_EQ(nearest(refused({"model.kind=encoder", "data.synthetic=false", "data.dataset=d"})), "");
  EXPECT_EQ(nearest(refused({"model.vocab=0"})), "");
}

TEST(Recipe, GpuIsNotTakenForAMisspeltCpu) {
  EXPECT_TRUE(problem({"device=gpu"}).ends_with("; did you mean cuda?")) << problem({"device=gpu"});
}

TEST(Recipe, OldNamesAreReadWithAWarning) {
  const std::string before[] = {"schedule.moe.cut=tokens",     "schedule.moe.parts=3",
                                "schedule.moe.spread=auto",    "schedule.moe.restore=keep",
                                "schedule.moe.products=dense", "schedule.pipeline.chunks=4"};
  std::vector<std::string> said;
  const Recipe r = load_recipe(config::parse(yaml, "recipe.yaml", before), Registry(), 1,
                               [&](const std::string& text) { said.push_back(text); });
  EXPECT_EQ(r.schedule.moe.chunks, 3);
  EXPECT_EQ(r.schedule.moe.memory_reuse, moe::ReuseStrategy::none);
  EXPECT_EQ(r.schedule.moe.gemms, moe::Gemms::dense);
  EXPECT_EQ(r.schedule.pipeline.virtual_stages, 4);
  EXPECT_EQ(said.size(), 7u);  // six renamed keys and a renamed value
  EXPECT_EQ(
      rename_schedules(
          "duplicates drop, overlap sequential, cut tokens, parts 4, spread direct, restore s1, products dense"),
      "duplicates drop, overlap sequential, chunk_by tokens, chunks 4, esp_exchange direct, memory_reuse s1, gemms "
      "dense");
  EXPECT_EQ(rename_schedules(""), "");
}

TEST(Recipe, ObjectiveMustFitTheModel) {
  EXPECT_NE(problem({"data.mlm_probability=0.15"}).find("must be 0 for model.kind: decoder"), std::string::npos);
  EXPECT_NE(problem({"model.vocab=0"}).find("must be given with data.synthetic"), std::string::npos);
  EXPECT_NE(problem({"data.synthetic=false", "data.dataset=x", "model.kind=encoder"}).find("must be above 0"),
            std::string::npos);
}

TEST(Recipe, LogitsInBf16NeedAModelInBf16) {
  EXPECT_EQ(recipe_of(yaml).train.logits_dtype, LogitsDtype::f32);
  EXPECT_EQ(recipe_of(yaml, {"train.precision=bf16", "train.logits_dtype=bf16"}).train.dtype_of_logits(),
            base::Dtype::bf16);
  for (const char* precision : {"f32", "f64"})
    EXPECT_EQ(problem({base::cat("train.precision=", precision), "train.logits_dtype=bf16"}),
              base::cat("command line: train.logits_dtype=bf16: train.logits_dtype (bf16) must be f32 for "
                        "train.precision: ",
                        precision, ", because only runs in bf16 can have logits in bf16"));
}

TEST(Recipe, CheckpointResumeMustBeKnown) {
  EXPECT_NE(problem({"checkpoint.resume=latest"}).find("must be auto, none or a step"), std::string::npos);
}

TEST(Recipe, AllProblemsAreReportedTogether) {
  const std::string text = problem({"model.moe.top_k=9", "model.kv_heads=3", "batch.micro=3", "train.steps=0"});
  for (const char* part : {"top_k (9)", "kv_heads (3)", "batch.micro (3)", "train.steps"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

}  // namespace
}  // namespace hexad::tests
