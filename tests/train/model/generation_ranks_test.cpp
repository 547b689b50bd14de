// Generation in layouts of several ranks.
#include <gtest/gtest.h>

#include "parallel/comm/self_group.h"
#include "tests/training/training.h"
#include "tools/train/model/generation.h"

namespace hexad::tests {

using namespace base;
using namespace layers;
using namespace train;
namespace {

const comm::SelfGroup self;

std::vector<int32_t> prompt(int64_t n) {
  std::vector<int32_t> ids(n);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>((i * 7 + 3) % 31);
  return ids;
}

SamplingOptions at_most(int64_t tokens, double temperature) {
  SamplingOptions o;
  o.max_tokens = tokens, o.temperature = temperature;
  return o;
}

TEST(Generate, ExpertsOnSeveralRanksGiveTheSameTokensOnEveryRank) {
  ModelInstance alone(small_recipe(), Registry(), self);
  const auto expected = generate(alone, prompt(3), at_most(5, 1));
  for (int ranks : {2, 4})
    on_ranks(ranks, [&](const comm::ProcessGroup& world) {
      Recipe recipe = small_recipe();
      recipe.parallel.ep = ranks;
      ModelInstance instance(recipe, Registry(), world);
      EXPECT_EQ(generate(instance, prompt(3), at_most(5, 1)), expected);
    });
}

struct RanksAndKeys {
  int ranks;
  std::vector<std::string> overrides;
};

class Layouts : public testing::TestWithParam<RanksAndKeys> {};

// Three prompts of several lengths. A pass that continues all of them has three rows, which two tp ranks cannot divide
// without padding.
const std::vector<std::vector<int32_t>> prompts{prompt(3), prompt(1), prompt(4)};

std::vector<std::vector<int32_t>> ids_of(const std::vector<Continuation>& continued) {
  std::vector<std::vector<int32_t>> all;
  for (const Continuation& c : continued) all.push_back(c.ids);
  return all;
}

TEST_P(Layouts, GiveTheTokensOfOneRank) {
  const auto& [ranks, overrides] = GetParam();
  for (const double temperature : {0.0, 1.0}) {
    ModelInstance alone(small_recipe(), Registry(), self);
    const auto expected = ids_of(generate_each(alone, prompts, at_most(4, temperature)));
    on_ranks(ranks, [&](const comm::ProcessGroup& world) {
      ModelInstance instance(small_recipe(overrides), Registry(), world);
      EXPECT_EQ(ids_of(generate_each(instance, prompts, at_most(4, temperature))), expected);
    });
  }
}
INSTANTIATE_TEST_SUITE_P(Generate, Layouts,
                         testing::Values(RanksAndKeys{2, {"parallel.tp=2"}},
                                         RanksAndKeys{2, {"parallel.tp=2", "parallel.sp=true"}},
                                         RanksAndKeys{2, {"parallel.ep=2"}}, RanksAndKeys{2, {"parallel.pp=2"}},
                                         RanksAndKeys{2, {"parallel.tp=2", "parallel.etp=1", "parallel.ep=2"}},
                                         RanksAndKeys{4, {"parallel.tp=2", "parallel.pp=2"}},
                                         RanksAndKeys{4, {"parallel.tp=2", "parallel.ep=2"}},
                                         RanksAndKeys{4, {"parallel.pp=2", "parallel.ep=2"}},
                                         RanksAndKeys{4, {"parallel.tp=2", "parallel.pp=2", "parallel.sp=true"}},
                                         RanksAndKeys{4, {"parallel.tp=2", "parallel.zero=3"}}));

TEST(Generate, SeveralModelsGiveTheTokensOfOneRank) {
  const std::vector<std::string> models[] = {
      {"model.qk_norm=all_heads", "model.rotary_share=0.5"},
      {"model.qk_norm=all_heads", "model.kv_heads=1", "model.qkv_bias=true"},
      {"model.moe.shared_experts=1", "model.moe.shared_gate=true", "model.moe.normalize_floor=0.7"},
      {"model.attention=latent", "model.kv_heads=auto", "model.head_size=auto", "model.latent.q_rank=6",
       "model.latent.kv_rank=5", "model.latent.nope_size=3", "model.latent.rope_size=2", "model.latent.value_size=4"},
      {"model.position=learned", "model.tied_embedding=true"}};
  const std::vector<std::string> layouts[] = {
      {"parallel.tp=2"}, {"parallel.tp=2", "parallel.sp=true"}, {"parallel.pp=2"}};
  for (const std::vector<std::string>& model : models) {
    ModelInstance alone(small_recipe(model), Registry(), self);
    const auto expected = ids_of(generate_each(alone, prompts, at_most(4, 1)));
    for (const std::vector<std::string>& layout : layouts)
      on_ranks(2, [&](const comm::ProcessGroup& world) {
        std::vector<std::string> overrides = model;
        overrides.insert(overrides.end(), layout.begin(), layout.end());
        ModelInstance instance(small_recipe(overrides), Registry(), world);
        EXPECT_EQ(ids_of(generate_each(instance, prompts, at_most(4, 1))), expected)
            << model.front() << ", " << layout.back();
      });
  }
}

TEST(Generate, CapacityAndVirtualStagesGiveTheTokensOfOneRank) {
  const std::vector<std::string> model{"model.layers=4", "model.moe.capacity_factor=1", "model.kv_heads=1"};
  ModelInstance alone(small_recipe(model), Registry(), self);
  const auto expected = ids_of(generate_each(alone, prompts, at_most(4, 0)));
  for (const char* kind : {"interleaved", "zb_v"})
    on_ranks(4, [&](const comm::ProcessGroup& world) {
      std::vector<std::string> overrides = model;
      overrides.insert(overrides.end(), {"parallel.tp=2", "parallel.pp=2", cat("schedule.pipeline.kind=", kind)});
      ModelInstance instance(small_recipe(overrides), Registry(), world);
      EXPECT_EQ(ids_of(generate_each(instance, prompts, at_most(4, 0))), expected) << kind;
    });
}

TEST(Generate, ContextParallelismIsRefusedByName) {
  on_ranks(2, [](const comm::ProcessGroup& world) {
    ModelInstance instance(small_recipe({"parallel.cp=2"}), Registry(), world);
    const std::string message = message_of(ExitCode::usage, [&] { generate(instance, prompt(3), at_most(1, 0)); });
    EXPECT_NE(message.find("parallel.cp (2) must be 1"), message.npos) << message;
  });
}

}  // namespace
}  // namespace hexad::tests
