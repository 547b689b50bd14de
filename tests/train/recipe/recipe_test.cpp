// Illegal recipes are reported with the line or override of the key, the reason and, for numbers, often the nearest
// legal values.
#include "tools/train/recipe/recipe.h"

#include <cstdlib>
#include <filesystem>
#include <set>
#include <utility>

#include <gtest/gtest.h>

#include "framework/base/home.h"
#include "tests/training/training.h"
#include "tools/train/recipe/recipe_comparison.h"
#include "tools/train/recipe/renamed_keys.h"
#include "tools/train/recipe/training_stages.h"

namespace hexad::tests {

using namespace layers;
using namespace train;
namespace {

constexpr const char* yaml = R"(model:
  hidden: 32
  heads: 4
  vocab: 97
  moe:
    experts: 8
batch:
  global: 8
  micro: 2
parallel:
  ep: 1
data:
  synthetic: true
)";

std::string problem(const std::vector<std::string>& overrides, int64_t world = 0) {
  return message_of(ExitCode::usage, [&] { recipe_of(yaml, overrides, world); });
}

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

// Collects the keys whose values are texts: paths and others.
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

// Fails for every new key that is a text: mark it with config::file_path if it is a path, and list it here.
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

TEST(Recipe, F28_ExpertsMustSpreadEvenly) {
  EXPECT_EQ(problem({"model.moe.experts=63", "parallel.ep=8"}),
            "command line: model.moe.experts=63: model.moe.experts (63) must be divisible by parallel.ep (8); nearest: "
            "56, 64");
}

TEST(Recipe, F28_IsReportedWithItsLine) {
  std::string text = yaml;
  text.replace(text.find("ep: 1"), 5, "ep: 3");
  EXPECT_EQ(message_of(ExitCode::usage, [&] { recipe_of(text); }),
            "test.yaml:6: model.moe.experts (8) must be divisible by parallel.ep (3); nearest: 6, 9");
}

TEST(Recipe, F28_BatchMustSpreadEvenly) {
  EXPECT_EQ(problem({}, 8),
            "test.yaml:8: batch.global (8) must be divisible by batch.micro x dp (2 x 8 = 16); nearest: 16; or "
            "batch.micro: 1");
  EXPECT_EQ(problem({"batch.global=40"}, 8),
            "command line: batch.global=40: batch.global (40) must be divisible by batch.micro x dp (2 x 8 = 16); "
            "nearest: 32, 48; or batch.micro: 1");
  EXPECT_EQ(problem({"batch.micro=3"}),
            "test.yaml:8: batch.global (8) must be divisible by batch.micro (3); nearest: 6, 9");
}

TEST(Recipe, F28_EpMustDivideTheRanks) {
  EXPECT_EQ(
      problem({"parallel.ep=4"}, 2),
      "command line: parallel.ep=4: parallel.ep (4) x etp (1) must divide the 2 ranks of a stage (dp 2 x cp 1 x tp 1); "
      "nearest ep: 2");
}

TEST(Recipe, OrderNamesEveryAxisOnce) {
  const auto wrong = [](const std::string& order) { return problem({"parallel.order=" + order}, 4); };
  const std::string expected = "; expected tp, cp, ep, dp and pp once each, joined by '-'; the nearest legal order is ";
  const auto line = [&](const std::string& order, const std::string& what) {
    return "command line: parallel.order=" + order + ": parallel.order (" + order + ") " + what + expected +
           "tp-cp-ep-dp-pp";
  };
  EXPECT_EQ(wrong("tp-cp-xp-dp-pp"), line("tp-cp-xp-dp-pp", "has an axis 'xp', lacks ep"));
  EXPECT_EQ(wrong("tp-cp-ep-tp-pp"), line("tp-cp-ep-tp-pp", "names tp twice, lacks dp"));
  EXPECT_EQ(wrong("tp-cp-dp-pp"), line("tp-cp-dp-pp", "lacks ep"));
  EXPECT_EQ(problem({"parallel.order=tp-cp-dp-pp"}), line("tp-cp-dp-pp", "lacks ep"));
  EXPECT_EQ(recipe_of(yaml, {"parallel.order=tp-cp-dp-ep-pp"}, 4).parallel.sizes().order, "tp-cp-dp-ep-pp");
  EXPECT_EQ(recipe_of(yaml, {"parallel.order=auto"}, 4).parallel.sizes().order, "");
}

TEST(Recipe, OrderGivesARankOneStageAndPlacesTheExperts) {
  const std::vector<std::string> split{"parallel.pp=2", "parallel.tp=2", "parallel.ep=2", "parallel.etp=1"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), split.begin(), split.end());
    return more;
  };
  for (int64_t world : {0, 8})
    EXPECT_NE(
        problem(with({"parallel.order=tp-pp-cp-ep-dp"}), world)
            .find("parallel.order (tp-pp-cp-ep-dp) puts pp after tp 2 = 2 ranks of dense layers, but after etp 1 = "
                  "1 ranks of experts"),
        std::string::npos);
  EXPECT_NO_THROW(recipe_of(yaml, with({"parallel.order=tp-cp-ep-dp-pp"}), 8));
  EXPECT_NE(problem({"parallel.order=tp-cp-ep-dp-pp", "parallel.cp_expansion=vertical"}, 4)
                .find("parallel.cp_expansion (vertical) must be auto, because parallel.order (tp-cp-ep-dp-pp) places"),
            std::string::npos);
}

// Replicas of tokens reach every part of an expert only if all ranks that share the expert hold the same tokens.
TEST(Recipe, ReplicatedTokensNeedEtpGroupsInsideTpGroups) {
  const std::vector<std::string> split{"parallel.tp=2", "parallel.ep=2", "parallel.etp=2",
                                       "schedule.moe.duplicates=replicated"};
  const auto under = [&](const std::string& order) {
    std::vector<std::string> all = split;
    all.push_back("parallel.order=" + order);
    return all;
  };
  EXPECT_NO_THROW(recipe_of(yaml, under("tp-cp-dp-ep-pp"), 4));
  EXPECT_NE(problem(under("ep-tp-cp-dp-pp"), 4)
                .find("schedule.moe.duplicates (replicated) needs every etp group inside one tp group"),
            std::string::npos);
}

TEST(Recipe, DenseModelHasNoExpertParallelism) {
  EXPECT_EQ(problem({"parallel.ep=2", "model.moe.experts=0"}),
            "command line: parallel.ep=2: parallel.ep (2) must be 1 for a model without experts");
}

TEST(Recipe, HeadsMustDivideTheHiddenSizeAndHaveEvenSizes) {
  EXPECT_NE(problem({"model.heads=5"}).find("model.hidden (32) must be divisible by model.heads (5); nearest: 30, 35"),
            std::string::npos);
  EXPECT_EQ(problem({"model.kv_heads=3"}),
            "test.yaml:3: model.heads (4) must be divisible by model.kv_heads (3); nearest: 3, 6");
  EXPECT_EQ(problem({"model.head_size=7"}),
            "command line: model.head_size=7: model.head_size (7) gives heads of odd size 7; rotary positions need an "
            "even size");
  EXPECT_EQ(recipe_of(yaml, {"model.head_size=7", "model.position=learned"}).model.size_of_head(), 7);
}

TEST(Recipe, LatentAttentionRefusesKeysThatItDoesNotRead) {
  const auto latent = [](const char* key) { return problem({"model.attention=latent", key}); };
  EXPECT_EQ(latent("model.kv_heads=2"),
            "command line: model.kv_heads=2: model.kv_heads (2) must be auto, or the number of heads, for "
            "model.attention: latent");
  EXPECT_EQ(latent("model.qk_norm=head"),
            "command line: model.qk_norm=head: model.qk_norm (head) must be none for model.attention: latent");
  EXPECT_NE(latent("model.latent.rope_size=3").find("must be even, because rotary positions turn pairs; nearest: 2, 4"),
            std::string::npos);
  EXPECT_NE(latent("model.latent.value_size=193").find("must be at most rope_size + nope_size (192)"),
            std::string::npos);
  EXPECT_NE(problem({"model.latent.kv_rank=64"}).find("is given, but model.attention is grouped"), std::string::npos);
  const ModelConfig m = recipe_of(yaml, {"model.attention=latent"}).model;
  EXPECT_EQ(m.size_of_head(), 192);
  EXPECT_EQ(m.rotary_size(), 64);
}

TEST(Recipe, PredictionBlocksNeedADecoderAndFurtherTokens) {
  const auto expect = [](const std::vector<std::string>& overrides, const char* text) {
    EXPECT_NE(problem(overrides).find(text), std::string::npos) << problem(overrides);
  };
  expect({"model.prediction_weight=0.1"}, "is given, but model.prediction_blocks is 0");
  expect({"model.prediction_blocks=1", "model.kind=encoder"}, "must be 0 for model.kind: encoder");
  expect({"model.prediction_blocks=100000"}, "must be below model.context (");
  expect({"model.prediction_blocks=1", "model.prediction_weight=0"},
         "model.prediction_weight (0) must be greater than 0");
  EXPECT_EQ(recipe_of(yaml, {"model.prediction_blocks=1", "model.prediction_weight=0.1"}).model.blocks(),
            recipe_of(yaml).model.layers + 1);
}

TEST(Recipe, RoutingMustBePossible) {
  EXPECT_EQ(problem({"model.moe.top_k=9"}),
            "command line: model.moe.top_k=9: model.moe.top_k (9) must be at most model.moe.experts (8)");
  EXPECT_EQ(problem({"model.moe.groups=3"}),
            "test.yaml:6: model.moe.experts (8) must be divisible by model.moe.groups (3); nearest: 6, 9");
  EXPECT_EQ(problem({"model.moe.top_groups=2"}),
            "command line: model.moe.top_groups=2: model.moe.top_groups (2) must be at most model.moe.groups (1)");
  EXPECT_EQ(problem({"model.moe.groups=4", "model.moe.top_k=3"}),
            "command line: model.moe.top_k=3: model.moe.top_k (3) must be at most 2, the number of experts in "
            "model.moe.top_groups (1) of model.moe.groups (4); set a smaller top_k or more top_groups");
  EXPECT_NE(problem({"model.moe.group_score=best"})
                .find("model.moe.group_score (best) ranks groups, but a token may choose from all groups: "
                      "model.moe.top_groups is model.moe.groups (1); set more groups, or group_score: best_two"),
            std::string::npos);
  EXPECT_NO_THROW(recipe_of(yaml, {"model.moe.groups=4", "model.moe.top_groups=2", "model.moe.group_score=best"}));
  EXPECT_NE(problem({"model.moe.dense_layers=4"}).find("but no layer has experts"), std::string::npos);
  EXPECT_NE(problem({"model.moe.routing=trace"}).find("must name a file for model.moe.routing: trace"),
            std::string::npos);
}

TEST(Recipe, F30_UnknownLayersAndKeysAreNamed) {
  EXPECT_EQ(problem({"model.mlp=swigly"}),
            "command line: model.mlp=swigly: model.mlp (swigly) is not a registered layer; registered: swiglu, gelu");
  EXPECT_NE(problem({"model.moe.expert=8"}).find("model.moe.expert"), std::string::npos);
  EXPECT_NE(problem({"model.hiden=8"}).find("hidden"), std::string::npos);
}

TEST(Recipe, ReDecisionsNeedAnOpenChoice) {
  EXPECT_NE(
      problem({"schedule.moe.redecide_every=10"})
          .find("schedule.moe.redecide_every (10) has nothing to decide, because no choice of schedule.moe is auto"),
      std::string::npos);
  EXPECT_NO_THROW(recipe_of(yaml, {"schedule.moe.redecide_every=10", "schedule.moe.duplicates=auto"}));
}

TEST(Recipe, OnlyGemmsByLoadReadDenseRows) {
  EXPECT_NE(problem({"schedule.moe.dense_rows=8"})
                .find("schedule.moe.dense_rows (8) is read only by schedule.moe.gemms: "
                      "by_load; set gemms: by_load, or dense_rows: auto"),
            std::string::npos)
      << problem({"schedule.moe.dense_rows=8"});
  EXPECT_NO_THROW(recipe_of(yaml, {"schedule.moe.dense_rows=8", "schedule.moe.gemms=by_load"}));
}

TEST(Recipe, ShadowsAreRefusedWithTheReason) {
  const std::string shadow = "schedule.moe.hot_experts=shadow";
  EXPECT_NO_THROW(recipe_of(yaml, {shadow, "schedule.moe.hot_load=1.5"}));
  EXPECT_NO_THROW(recipe_of(yaml, {shadow, "schedule.moe.memory_reuse=s4"}));
  const auto expect = [&](const std::vector<std::string>& overrides, const std::string& why) {
    const std::string what = problem(overrides);
    EXPECT_NE(what.find(why), std::string::npos) << what;
  };
  expect({"schedule.moe.hot_load=2"}, "schedule.moe.hot_load (2) is read only by schedule.moe.hot_experts: shadow");
  expect({shadow, "schedule.moe.hot_load=0.5"}, "schedule.moe.hot_load");
  expect({shadow, "schedule.moe.rows=token"}, "schedule.moe.hot_experts (shadow) needs schedule.moe.rows: slot");
  expect({shadow, "schedule.moe.memory_reuse=s4", "schedule.moe.memory_limit=64MiB"},
         "schedule.moe.memory_limit: none");
  expect({shadow, "schedule.moe.memory_reuse=auto"}, "schedule.moe.memory_reuse: none or s1 to s4");
  expect({shadow, "schedule.pipeline.overlap=micro_batches"}, "needs schedule.moe.hot_experts: stay");
}

TEST(Recipe, ComputeShareNeedsOverlap) {
  const std::string share = "schedule.moe.compute_share=0.5",
                    why = "leaves threads to chunks in flight, but no chunks are";
  EXPECT_NE(problem({share}).find("schedule.moe.compute_share (0.5) " + why), std::string::npos) << problem({share});
  const std::string in_sequence =
      problem({share, "schedule.moe.chunk_by=tokens", "schedule.moe.chunks=2", "schedule.moe.overlap=none"});
  EXPECT_NE(in_sequence.find(why), std::string::npos) << in_sequence;
  for (const char* other : {"chunk_by=tokens", "chunk_by=auto", "overlap=auto", "memory_reuse=auto"})
    EXPECT_NO_THROW(recipe_of(yaml, {share, std::string("schedule.moe.") + other})) << other;
  EXPECT_NO_THROW(recipe_of(yaml, {share, "schedule.moe.shared=beside", "model.moe.shared_experts=1"}));
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
  const std::string before[] = {"schedule.moe.cut=tokens", "schedule.moe.parts=3", "schedule.moe.spread=auto",
                                "schedule.moe.restore=keep", "schedule.moe.products=dense"};
  std::vector<std::string> said;
  const Recipe r = load_recipe(config::parse(yaml, "recipe.yaml", before), Registry(), 1,
                               [&](const std::string& text) { said.push_back(text); });
  EXPECT_EQ(r.schedule.moe.chunks, 3);
  EXPECT_EQ(r.schedule.moe.memory_reuse, moe::ReuseStrategy::none);
  EXPECT_EQ(r.schedule.moe.gemms, moe::Gemms::dense);
  EXPECT_EQ(said.size(), 6u);  // five renamed keys and a renamed value
  EXPECT_EQ(
      rename_schedules(
          "duplicates drop, overlap sequential, cut tokens, parts 4, spread direct, restore s1, products dense"),
      "duplicates drop, overlap sequential, chunk_by tokens, chunks 4, esp_exchange direct, memory_reuse s1, gemms "
      "dense");
  EXPECT_EQ(rename_schedules(""), "");
}

TEST(Recipe, RotaryPositionsRotateAWholeNumberOfPairs) {
  const auto wrong = [](const char* share) {
    return problem({"model.head_size=8", std::string("model.rotary_share=") + share});
  };
  EXPECT_TRUE(
      wrong("0.4").ends_with("model.rotary_share (0.4) gives 3.2 of the 8 dimensions of a head, but rotary "
                             "positions need an even number; nearest: 0.25, 0.5"))
      << wrong("0.4");
  EXPECT_TRUE(
      wrong("0.125").ends_with("gives 1 of the 8 dimensions of a head, but rotary positions need an even "
                               "number; nearest: 0.25"))
      << wrong("0.125");
  EXPECT_NE(wrong("1.5").find("model.rotary_share (1.5) must be at most 1"), std::string::npos) << wrong("1.5");
  EXPECT_EQ(recipe_of(yaml, {"model.head_size=48", "model.rotary_share=0.291667"}).model.rotary_size(), 14);
  for (const char* share : {"1", "0.75", "0.25"})
    EXPECT_NO_THROW(recipe_of(yaml, {"model.head_size=8", std::string("model.rotary_share=") + share})) << share;
  EXPECT_NO_THROW(recipe_of(yaml, {"model.head_size=8", "model.rotary_share=0.4", "model.position=learned"}));
}

TEST(Recipe, OnlyOneRuleMayScaleRotaryFrequencies) {
  const std::string two = problem({"model.rotary_scaling.kind=linear", "model.yarn.factor=4"});
  EXPECT_NE(two.find("model.rotary_scaling.kind (linear) must be none with model.yarn.factor (4)"), std::string::npos)
      << two;
  const std::string order = problem({"model.rotary_scaling.kind=llama3", "model.rotary_scaling.high_freq_factor=0.5"});
  EXPECT_NE(order.find("model.rotary_scaling.high_freq_factor (0.5) must be at least "
                       "model.rotary_scaling.low_freq_factor (1)"),
            std::string::npos)
      << order;
  const std::string lists = problem({"model.rotary_scaling.kind=longrope", "model.rotary_scaling.long_factors=[1, 2]"});
  for (const char* text : {"model.rotary_scaling.short_factors ([] by default) must have 4 numbers",
                           "model.rotary_scaling.long_factors ([1, 2]) must have 4 numbers"})
    EXPECT_NE(lists.find(text), std::string::npos) << lists;
  const std::string other = problem({"model.rotary_scaling.long_magnitude=2"});
  EXPECT_NE(other.find("model.rotary_scaling.kind (none by default) must be longrope for short_factors"),
            std::string::npos)
      << other;
  const std::string unread = problem({"model.rotary_scaling.factor=8"});
  EXPECT_NE(unread.find("model.rotary_scaling.factor (8) must be 1 for model.rotary_scaling.kind: none"),
            std::string::npos)
      << unread;
}

TEST(Recipe, WindowsNeedADecoderAndABlockThatReadsThem) {
  EXPECT_NO_THROW(recipe_of(yaml, {"model.window=16", "model.full_attention_every=2"}));
  EXPECT_NE(
      problem({"model.full_attention_every=2"}).find("model.full_attention_every (2) must be 0 for model.window: none"),
      std::string::npos);
  EXPECT_NE(problem({"model.window=16", "model.full_attention_every=1"})
                .find("model.full_attention_every (1) must not be 1 with model.window (16)"),
            std::string::npos);
  EXPECT_NE(problem({"model.window=16", "model.kind=encoder", "data.mlm_probability=0.15"})
                .find("model.window (16) must be none for model.kind: encoder"),
            std::string::npos);
}

TEST(Recipe, KeysOfLlama4MustAgree) {
  const auto expect = [](const std::vector<std::string>& overrides, const char* text) {
    EXPECT_NE(problem(overrides).find(text), std::string::npos) << problem(overrides);
  };
  EXPECT_NO_THROW(recipe_of(yaml, {"model.attention_chunk=16", "model.full_attention_every=2",
                                   "model.no_rotary_every=2", "model.temperature.scale=0.1", "model.qk_norm=unit"}));
  expect({"model.attention_chunk=16", "model.window=8"},
         "model.attention_chunk (16) must be none with model.window (8)");
  expect({"model.attention_chunk=16", "model.kind=encoder", "data.mlm_probability=0.15"},
         "model.attention_chunk (16) must be none for model.kind: encoder");
  expect({"model.attention_chunk=16", "model.full_attention_every=1"}, "must not be 1 with model.attention_chunk (16)");
  expect({"model.no_rotary_every=1"}, "model.no_rotary_every (1) must not be 1");
  expect({"model.no_rotary_every=2", "model.position=learned"}, "model.no_rotary_every (2) must be 0");
  expect({"model.qk_norm=unit", "model.position=learned"}, "model.qk_norm (unit) must not be unit");
  expect({"model.temperature.scale=0.1"}, "model.temperature.scale (0.1) must be 0 for model.no_rotary_every: 0");
  expect({"model.moe.weigh=input", "model.moe.top_k=2"},
         "model.moe.weigh (input) must be output for model.moe.top_k (2)");
}

TEST(Recipe, DeltaNetsNeedADecoderWithoutWindowsAndChunks) {
  const std::vector<std::string> used{"model.delta_net.heads=4", "model.delta_net.conv_size=2"};
  const auto wrong = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = used;
    all.insert(all.end(), more.begin(), more.end());
    return problem(all);
  };
  EXPECT_NO_THROW(recipe_of(yaml, used));
  EXPECT_NO_THROW(recipe_of(yaml, {"model.delta_net.heads=4", "model.full_attention_every=4"}));
  EXPECT_NE(problem({"model.delta_net.key_size=64"}).find("model.delta_net.heads is 0; expected at least 1"),
            std::string::npos);
  EXPECT_NE(wrong({"model.window=16"}).find("model.window (16) must be none with delta nets"), std::string::npos);
  EXPECT_NE(wrong({"model.attention_chunk=16"}).find("model.attention_chunk (16) must be none with delta nets"),
            std::string::npos);
  EXPECT_NE(wrong({"model.delta_net.key_heads=3"}).find("model.delta_net.heads (4) must be divisible by"),
            std::string::npos);
  EXPECT_NE(
      wrong({"model.full_attention_every=1"}).find("model.full_attention_every (1) must not be 1 with delta nets"),
      std::string::npos);
  EXPECT_NE(wrong({"model.kind=encoder", "data.mlm_probability=0.15"})
                .find("model.delta_net.heads (4) must be 0 for model.kind: encoder"),
            std::string::npos);
  EXPECT_NE(problem({"model.norm=zero_centred_rms_norm", "model.qk_norm=all_heads"})
                .find("model.qk_norm (all_heads) must be none, head or unit for model.norm: zero_centred_rms_norm"),
            std::string::npos);
}

TEST(Recipe, SwigluLimitNeedsASwiglu) {
  EXPECT_NO_THROW(recipe_of(yaml, {"model.swiglu_limit=7", "model.mlp=gelu"}));
  const std::string none = problem({"model.swiglu_limit=7", "model.mlp=gelu", "model.moe.expert=gelu"});
  EXPECT_NE(none.find("model.swiglu_limit (7) must be none for a model without a SwiGLU"), std::string::npos) << none;
}

TEST(Recipe, WrittenBiasesEqualAutomaticOnes) {
  const auto changes = [](const std::vector<std::string>& before, const std::vector<std::string>& now) {
    return changes_of_model(recipe_of(yaml, before), recipe_of(yaml, now));
  };
  const std::vector<std::string> none;
  EXPECT_EQ(changes({"model.bias=true"},
                    {"model.bias=true", "model.qkv_bias=true", "model.o_bias=true", "model.moe.expert_bias=true"}),
            none);
  EXPECT_EQ(changes({"model.qkv_bias=false", "model.moe.selection_bias=false"}, {}), none);
  EXPECT_EQ(changes({}, {"model.qkv_bias=true"}), std::vector<std::string>{"model.qkv_bias: auto -> true"});
  EXPECT_EQ(changes({"model.moe.selection_bias=true"}, {}),
            std::vector<std::string>{"model.moe.selection_bias: true -> auto"});
}

// Imports once wrote the width of the shared experts into recipes of models without shared experts.
TEST(Recipe, WidthOfMissingSharedExpertsMayChangeDuringARun) {
  const auto changes = [](const std::vector<std::string>& before, const std::vector<std::string>& now) {
    return changes_of_model(recipe_of(yaml, before), recipe_of(yaml, now));
  };
  EXPECT_EQ(changes({"model.moe.shared_experts=0", "model.moe.shared_hidden=32"}, {"model.moe.shared_experts=0"}),
            std::vector<std::string>{});
  EXPECT_EQ(changes({"model.moe.shared_experts=1", "model.moe.shared_hidden=32"}, {"model.moe.shared_experts=1"}),
            std::vector<std::string>{"model.moe.shared_hidden: 32 -> auto"});
}

TEST(Recipe, ParametersThatMuonUpdatesMayNotChangeDuringARun) {
  const Recipe before = recipe_of(yaml, {"optim.name=muon"});
  EXPECT_EQ(changes_of_model(before, recipe_of(yaml, {"optim.name=muon", "optim.muon_except=[head.weight]"})),
            std::vector<std::string>{"optim.muon_except: [] -> [head.weight]"});
  EXPECT_EQ(changes_of_model(before, recipe_of(yaml, {"optim.name=muon", "optim.muon_momentum=0.9"})),
            std::vector<std::string>{});
}

TEST(Recipe, KeysOfRoutersAndSharedExpertsMustAgree) {
  const auto expect = [](const std::vector<std::string>& overrides, const char* text) {
    EXPECT_NE(problem(overrides).find(text), std::string::npos) << problem(overrides);
  };
  expect({"model.moe.shared_gate=true"},
         "model.moe.shared_gate (true) must be false for model.moe.shared_experts: 0, which has no result to gate");
  expect({"model.moe.normalize=false", "model.moe.normalize_floor=0.1"},
         "model.moe.normalize_floor (0.1) must be 0 for model.moe.normalize: false, which divides no weights");
  expect({"model.moe.mixer_jitter=0.1"}, "model.moe.mixer_jitter (0.1) is not read by the router top_k");
  EXPECT_EQ(recipe_of(yaml, {"model.moe.mixer_jitter=0.1", "model.moe.router=sparse_mixer"}).model.moe.mixer_jitter,
            0.1);
  expect({"model.moe.scale=2", "model.moe.router=sparse_mixer"},
         "model.moe.scale (2) is not read by the router sparse_mixer");
  expect({"model.moe.selection_bias=false", "model.moe.bias_rate=0.1"},
         "model.moe.selection_bias (false) must be auto or true for model.moe.bias_rate (0.1), which changes it");
  EXPECT_TRUE(recipe_of(yaml, {"model.moe.bias_rate=0.1"}).model.moe.has_selection_bias());
  EXPECT_FALSE(recipe_of(yaml, {}).model.moe.has_selection_bias());
}

TEST(Recipe, ExpertsChooseTokensOnlyInEncodersWithACapacity) {
  std::vector<std::string> keys{"model.moe.router=expert_choice", "model.kind=encoder", "model.moe.capacity_factor=0.5",
                                "model.moe.aux_loss.coefficient=0"};
  EXPECT_TRUE(recipe_of(yaml, keys).model.moe.experts_choose());
  const auto with = [&](const char* change) {
    std::vector<std::string> all = keys;
    all.emplace_back(change);
    return problem(all);
  };
  const auto expect = [&](const char* change, const char* text) {
    EXPECT_NE(with(change).find(text), std::string::npos) << with(change);
  };
  expect("model.kind=decoder", "model.kind (decoder) must be encoder for model.moe.router: expert_choice: an expert");
  expect("model.moe.capacity_factor=none", "must be a number for model.moe.router: expert_choice");
  expect("model.moe.capacity_factor=1.5",
         "model.moe.capacity_factor (1.5) must be at most 1 for model.moe.router: expert_choice, because experts");
  expect("model.moe.aux_loss.coefficient=0.01",
         "model.moe.aux_loss.coefficient (0.01) must be 0 for model.moe.router: expert_choice");
  expect("model.moe.drop=position", "model.moe.drop (position) must be probability for");
  expect("model.moe.routing=balanced", "model.moe.routing (balanced) must be model for");
  expect("model.moe.bias_rate=0.1", "model.moe.bias_rate (0.1) must be 0 for the router expert_choice");
  expect("model.moe.score=sigmoid", "model.moe.score (sigmoid) is not read by the router expert_choice");
}

TEST(Recipe, QkNormAcceptsTrueAndFalse) {
  const auto norm = [](const char* word) { return recipe_of(yaml, {std::string("model.qk_norm=") + word}).model; };
  EXPECT_EQ(norm("true").qk_norm, layers::QkNorm::head);
  EXPECT_EQ(norm("false").qk_norm, layers::QkNorm::none);
  EXPECT_EQ(config::differences(norm("true"), norm("head")), std::vector<std::string>{});
  EXPECT_NE(config::write(norm("true")).find("qk_norm: head\n"), std::string::npos);
}

TEST(Recipe, OrderOfAnMoeLayerMustBeRegisteredAndPossible) {
  EXPECT_EQ(problem({"schedule.moe.order=return_last"}),
            "command line: schedule.moe.order=return_last: schedule.moe.order (return_last) is not a registered order; "
            "registered: returns_last, weights_last, alternating");
  EXPECT_EQ(
      problem({"schedule.moe.order=returns_last"}),
      "command line: schedule.moe.order=returns_last: schedule.moe.order (returns_last) has no chunks to order: set "
      "schedule.moe.chunk_by, or order: alternating");
  const std::vector<std::string> cut{"schedule.moe.chunk_by=tokens", "schedule.moe.order=returns_last"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), cut.begin(), cut.end());
    return more;
  };
  EXPECT_EQ(problem(with({"schedule.moe.chunks=3", "schedule.moe.memory_reuse=s4"})),
            "command line: schedule.moe.order=returns_last: schedule.moe.order (returns_last) is illegal for 3 chunks: "
            "step 3 is dispatch[2], but 2 chunks are in flight already, and schedule.moe.memory_reuse has only 2 "
            "buffers");
  EXPECT_NO_THROW(recipe_of(yaml, with({"schedule.moe.chunks=2", "schedule.moe.memory_reuse=s4"})));
  const std::string more =
      problem(with({"schedule.moe.chunks=2", "schedule.moe.memory_reuse=s4", "schedule.moe.memory_limit=1000000000"}));
  EXPECT_NE(more.find("schedule.moe.order (returns_last) is illegal for 3 chunks"), std::string::npos) << more;
  EXPECT_NO_THROW(recipe_of(yaml, with({"schedule.moe.chunks=3"})));
}

TEST(Recipe, MemoryLimitCountsRowsOfSlots) {
  const std::string message =
      problem({"schedule.moe.memory_limit=100000000", "schedule.moe.memory_reuse=s4", "schedule.moe.rows=token"});
  EXPECT_NE(message.find("counts only buffers of slot rows: schedule.moe.rows must be slot"), std::string::npos)
      << message;
}

TEST(Recipe, MemoryLimitNeedsTheDirectAllToAll) {
  const std::string message = problem(
      {"schedule.moe.memory_limit=100000000", "schedule.moe.memory_reuse=s4", "schedule.moe.all_to_all=hierarchical"});
  EXPECT_NE(message.find("schedule.moe.all_to_all must be direct; or set memory_limit: none"), std::string::npos)
      << message;
}

TEST(Recipe, WindowsNeedRowsOfSlotsThatAreSentAsTheyAre) {
  const std::string window = "schedule.moe.all_to_all=window", chunks = "schedule.moe.chunks=2";
  EXPECT_NO_THROW(recipe_of(yaml, {window}));
  const auto expect_need = [](const std::vector<std::string>& overrides, const std::string& need) {
    const std::string message = problem(overrides);
    EXPECT_NE(message.find("schedule.moe.all_to_all (window) needs " + need), std::string::npos) << message;
  };
  expect_need({window, "parallel.tp=2"}, "parallel.etp: 1");
  EXPECT_NO_THROW(recipe_of(yaml, {window, "parallel.tp=2", "parallel.etp=1"}));
  expect_need({window, "schedule.moe.rows=token"}, "schedule.moe.rows: slot");
  expect_need({window, "schedule.moe.wire=fp8"}, "schedule.moe.wire: model");
  expect_need({window, "schedule.moe.memory_reuse=s4"}, "schedule.moe.memory_reuse: none");
  expect_need({window, "schedule.moe.hot_experts=shadow"}, "schedule.moe.hot_experts: stay");
  expect_need({window, chunks, "schedule.moe.overlap=a2a_allgather"}, "schedule.moe.overlap: sequential or none");
}

TEST(Recipe, SharedExpertsBesideTheAllToAllMustExist) {
  EXPECT_EQ(problem({"schedule.moe.shared=beside"}),
            "command line: schedule.moe.shared=beside: schedule.moe.shared (beside) needs shared experts or a "
            "dense MLP, but model.moe.shared_experts is 0 and model.moe.dense_residual is false; legal here: after");
  const std::string open = problem({"schedule.moe.shared=beside", "schedule.moe.chunk_by=auto"});
  EXPECT_NE(open.find("model.moe.shared_experts is 0"), std::string::npos) << open;
  const Recipe r = recipe_of(yaml, {"schedule.moe.shared=beside", "model.moe.shared_experts=1"});
  EXPECT_TRUE(r.schedule.lanes_have_threads(r.schedule.moe.settled()));
  EXPECT_NO_THROW(recipe_of(yaml, {"schedule.moe.shared=beside", "model.moe.dense_residual=true"}));
}

TEST(Recipe, PaddingNeedsACapacityAndSentSlotRowsOfAWholeMicroBatch) {
  const std::string padded = "schedule.moe.capacity_padding=full", capacity = "model.moe.capacity_factor=1.2";
  const auto expect_refused = [&](std::vector<std::string> more, const std::string& why) {
    more.push_back(padded);
    const std::string message = problem(more);
    EXPECT_NE(message.find(why + "; or capacity_padding: none"), std::string::npos) << message;
  };
  expect_refused({}, "model.moe.capacity_factor must be set");
  expect_refused({capacity, "schedule.moe.rows=token"}, "schedule.moe.rows must be slot");
  expect_refused({capacity, "schedule.moe.chunk_by=tokens", "schedule.moe.chunks=2"},
                 "schedule.moe.overlap must be sequential unless duplicates is pause_after_gate");
  expect_refused({capacity, "schedule.moe.memory_reuse=s4"}, "memory_reuse must be none");
  expect_refused({capacity, "schedule.moe.hot_experts=shadow"}, "schedule.moe.hot_experts must be stay");
  EXPECT_NO_THROW(recipe_of(yaml, {capacity, padded}));
}

// In Parm's SAA, there is at most one phase for each rank of the all-to-all.
TEST(Recipe, PhasesOfTheReturnAreAtMostParallelEpOrOneForEachRank) {
  const auto with = [](int64_t phases, const std::string& exchange) {
    return std::vector<std::string>{"parallel.tp=2",
                                    "parallel.ep=2",
                                    "parallel.etp=2",
                                    "schedule.moe.duplicates=pause_after_gate",
                                    "schedule.moe.overlap=a2a_allgather",
                                    "schedule.moe.esp_exchange=" + exchange,
                                    base::cat("schedule.moe.chunks=", phases)};
  };
  for (const int64_t phases : {2, 4}) EXPECT_NO_THROW(recipe_of(yaml, with(phases, "direct"), 4)) << phases;
  const std::string three = problem(with(3, "direct"), 4), four = problem(with(4, "gather"), 4);
  EXPECT_NE(three.find("must be at most parallel.ep (2), or parallel.ep x parallel.etp (4), for the phases"),
            std::string::npos)
      << three;
  EXPECT_NE(four.find("must be at most parallel.ep (2), for the phases"), std::string::npos) << four;
}

TEST(Recipe, ObjectiveMustFitTheModel) {
  EXPECT_NE(problem({"data.mlm_probability=0.15"}).find("must be 0 for model.kind: decoder"), std::string::npos);
  EXPECT_NE(problem({"model.vocab=0"}).find("must be given with data.synthetic"), std::string::npos);
  EXPECT_NE(problem({"data.synthetic=false", "data.dataset=x", "model.kind=encoder"}).find("must be above 0"),
            std::string::npos);
}

TEST(Recipe, CheckpointResumeMustBeKnown) {
  EXPECT_NE(problem({"checkpoint.resume=latest"}).find("must be auto, none or a step"), std::string::npos);
}

TEST(Recipe, NcclNeedsCardsAndNetworkClassesNeedPriorities) {
  EXPECT_NE(problem({"distributed.device_collectives=nccl"}, 2)
                .find("distributed.device_collectives (nccl) needs device: cuda, but device is cpu"),
            std::string::npos);
  EXPECT_NE(problem({"distributed.priority=[ep]", "distributed.network_classes=[3, 2]"})
                .find("distributed.network_classes ([3, 2]) has 2 numbers for the 1 classes in distributed.priority"),
            std::string::npos);
}

TEST(Recipe, RegisteredBuffersNeedNccl) {
  EXPECT_NE(problem({"distributed.register_buffers=true", "distributed.device_collectives=host"})
                .find("distributed.register_buffers (true) needs NCCL, but distributed.device_collectives is host"),
            std::string::npos);
}

TEST(Recipe, MomentsInBf16NeedAdamwAndAPrecisionBelowF64) {
  EXPECT_EQ(recipe_of(yaml).optim.moment_dtype, optim::MomentDtype::f32);
  for (const char* precision : {"train.precision=bf16", "train.precision=f32"})
    EXPECT_EQ(recipe_of(yaml, {precision, "optim.moment_dtype=bf16"}).optim.moment_dtype, optim::MomentDtype::bf16);
  EXPECT_EQ(recipe_of(yaml, {"train.seed=7"}).optim.seed, 7u);
  EXPECT_EQ(problem({"train.precision=f64", "optim.moment_dtype=bf16"}),
            "command line: optim.moment_dtype=bf16: optim.moment_dtype (bf16) must be f32 for train.precision: f64, "
            "because f32 then means moments in f64");
  EXPECT_EQ(problem({"optim.name=sgd", "optim.moment_dtype=bf16"}),
            "command line: optim.moment_dtype=bf16: optim.moment_dtype (bf16) must be f32 for the optimizer sgd, whose "
            "states are never in bf16");
}

TEST(Recipe, RestsOfMainWeightsNeedAdamwAndBf16Weights) {
  EXPECT_EQ(recipe_of(yaml).optim.main_weights, optim::MainWeights::f32);
  EXPECT_EQ(recipe_of(yaml, {"train.precision=bf16", "optim.main_weights=rest"}).optim.main_weights,
            optim::MainWeights::rest);
  for (const char* precision : {"f32", "f64"})
    EXPECT_EQ(problem({base::cat("train.precision=", precision), "optim.main_weights=rest"}),
              base::cat("command line: optim.main_weights=rest: optim.main_weights (rest) must be f32 for "
                        "train.precision: ",
                        precision, ", because only bf16 weights have rests"));
  EXPECT_EQ(problem({"train.precision=bf16", "optim.name=sgd", "optim.main_weights=rest"}),
            "command line: optim.main_weights=rest: optim.main_weights (rest) must be f32 for the optimizer sgd, which "
            "cannot update main weights stored as rests");
}

TEST(Recipe, ReservedMultiprocessorsNeedACard) {
  EXPECT_NE(problem({"distributed.reserve_multiprocessors=8"})
                .find("distributed.reserve_multiprocessors (8) needs device: cuda, but device is cpu"),
            std::string::npos);
  EXPECT_EQ(
      recipe_of(yaml, {"distributed.reserve_multiprocessors=8", "device=cuda"}).distributed.reserve_multiprocessors, 8);
  EXPECT_FALSE(recipe_of(yaml).distributed.reserve_multiprocessors);
}

const std::vector<std::string> of_a_card{"device=cuda", "distributed.reserve_multiprocessors=8",
                                         "distributed.device_collectives=nccl", "distributed.register_buffers=true"};

TEST(Recipe, ExternalDeviceReplacesValuesForTheRecipesDevice) {
  const auto load = [](const std::vector<std::string>& overrides, device::DeviceKind device) {
    return load_recipe(config::parse(yaml, "test.yaml", overrides), Registry(), 0, {}, device);
  };
  for (const auto device : {device::DeviceKind::cpu, device::DeviceKind::emulated}) {
    const Recipe r = load(of_a_card, device);
    EXPECT_EQ(r.device, device);
    EXPECT_EQ(r.distributed.device_collectives, comm::DeviceCollectives::automatic);
    EXPECT_FALSE(r.distributed.reserve_multiprocessors);
  }
  const Recipe same = load(of_a_card, device::DeviceKind::cuda);
  EXPECT_EQ(same.distributed.device_collectives, comm::DeviceCollectives::nccl);
  EXPECT_EQ(same.distributed.reserve_multiprocessors, 8);
  EXPECT_EQ(load({"device=cuda", "distributed.device_collectives=host"}, device::DeviceKind::cpu)
                .distributed.device_collectives,
            comm::DeviceCollectives::host);
  EXPECT_FALSE(load({"schedule.worker_lanes=true"}, device::DeviceKind::emulated).schedule.worker_lanes);
  EXPECT_EQ(load({"schedule.worker_lanes=false"}, device::DeviceKind::emulated).schedule.worker_lanes, false);
  EXPECT_EQ(load({"schedule.worker_lanes=true"}, device::DeviceKind::cpu).schedule.worker_lanes, true);
}

TEST(Recipe, DeviceOfTheEnvironmentIsExternal) {
  ASSERT_EQ(::setenv("HEXAD_DEVICE", "cpu", 1), 0);
  EXPECT_EQ(recipe_of(yaml, of_a_card).device, device::DeviceKind::cpu);
  EXPECT_NE(problem({"distributed.reserve_multiprocessors=8"}).find("needs device: cuda, but device is cpu"),
            std::string::npos);
  ASSERT_EQ(::setenv("HEXAD_DEVICE", "abacus", 1), 0);
  EXPECT_NE(
      problem({}).find("is set by HEXAD_DEVICE=abacus, which is not a device; expected one of cpu, cuda, emulated"),
      std::string::npos);
  ASSERT_EQ(::unsetenv("HEXAD_DEVICE"), 0);
}

TEST(Recipe, AllProblemsAreReportedTogether) {
  const std::string text = problem({"model.moe.top_k=9", "model.kv_heads=3", "batch.micro=3", "train.steps=0"});
  for (const char* part : {"top_k (9)", "kv_heads (3)", "batch.micro (3)", "train.steps"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

}  // namespace
}  // namespace hexad::tests
