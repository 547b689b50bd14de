// Prefill of several prompts at a time, whole and in chunks, in layouts of one and of several ranks.
#include "tools/train/model/prefill.h"

#include <gtest/gtest.h>

#include "parallel/comm/self_group.h"
#include "tests/training/training.h"

namespace hexad::tests {

using namespace base;
using namespace layers;
using namespace train;
namespace {

const comm::SelfGroup self;

constexpr int64_t prompts = 3, length = 7;

const std::vector<std::string> delta_nets{"model.delta_net.heads=4", "model.delta_net.key_size=6",
                                          "model.delta_net.value_size=4", "model.full_attention_every=2"};

std::vector<int32_t> firsts(ModelInstance& instance, const PromptBatch& batch) {
  return Prefill(instance, batch, 5).run().first;
}

// Returns the first tokens of `count` prompts that one rank computes in one pass.
std::vector<int32_t> expected(int64_t count, const std::vector<std::string>& model = {}) {
  ModelInstance alone(small_recipe(model), Registry(), self);
  return firsts(alone, {.prompts = count, .length = length});
}

TEST(Prefill, PromptsDoNotDependOnOtherPrompts) {
  ModelInstance instance(small_recipe(), Registry(), self);
  const std::vector<int32_t> all = firsts(instance, {.prompts = prompts, .length = length});
  ASSERT_EQ(std::ssize(all), prompts);
  EXPECT_FALSE(all[0] == all[1] && all[1] == all[2]) << "different prompts must not all have the same first token";
  EXPECT_EQ(firsts(instance, {.prompts = 1, .length = length}), std::vector<int32_t>(1, all[0]));
  EXPECT_EQ(firsts(instance, {.prompts = 2, .length = length}), std::vector<int32_t>(all.begin(), all.begin() + 2));
}

TEST(Prefill, ChunksGiveTheFirstTokensOfWholePrompts) {
  const std::vector<std::string> models[] = {
      {},
      {"model.position=learned"},
      {"model.attention=latent", "model.kv_heads=auto", "model.head_size=auto", "model.latent.kv_rank=5",
       "model.latent.nope_size=3", "model.latent.rope_size=2", "model.latent.value_size=4"},
      {"model.attention_chunk=4", "model.no_rotary_every=2"},
      delta_nets};
  for (const std::vector<std::string>& model : models) {
    ModelInstance instance(small_recipe(model), Registry(), self);
    for (const int64_t chunk : {1, 2, 3, 6, 7, 8})
      EXPECT_EQ(firsts(instance, {.prompts = prompts, .length = length, .chunk = chunk}), expected(prompts, model))
          << "chunks of " << chunk;
  }
}

TEST(Prefill, RepeatedRunsGiveTheSameTokens) {
  for (const std::vector<std::string>& model : {std::vector<std::string>{}, delta_nets}) {
    ModelInstance instance(small_recipe(model), Registry(), self);
    Prefill prefill(instance, {.prompts = prompts, .length = length, .chunk = 3}, 5);
    const Prefill::Result first = prefill.run(), second = prefill.run();
    EXPECT_EQ(first.first, second.first) << testing::PrintToString(model);
    EXPECT_GT(second.seconds, 0);
  }
}

TEST(PromptBatch, CountsItsPasses) {
  EXPECT_EQ((PromptBatch{.prompts = 1, .length = 7, .chunk = 0}).passes(), 1);
  EXPECT_EQ((PromptBatch{.prompts = 1, .length = 7, .chunk = 3}).passes(), 3);
  EXPECT_EQ((PromptBatch{.prompts = 1, .length = 6, .chunk = 3}).passes(), 2);
  EXPECT_EQ((PromptBatch{.prompts = 1, .length = 7, .chunk = 9}).pass_length(), 7);
}

struct RanksAndKeys {
  int ranks;
  std::vector<std::string> overrides;
};

class PrefillLayouts : public testing::TestWithParam<RanksAndKeys> {};

// Three prompts of seven tokens have rows that tp ranks cannot divide without padding.
TEST_P(PrefillLayouts, GiveTheFirstTokensOfOneRank) {
  const auto& [ranks, overrides] = GetParam();
  const std::vector<int32_t> all = expected(2 * prompts);  // for at most two dp coordinates
  for (const int64_t chunk : {0, 3})
    on_ranks(ranks, [&](const comm::ProcessGroup& world) {
      ModelInstance instance(small_recipe(overrides), Registry(), world);
      const std::vector<int32_t> mine = firsts(instance, {.prompts = prompts, .length = length, .chunk = chunk});
      const int64_t begin = instance.mesh.coordinate(Axis::dp) * prompts;
      const bool last = instance.mesh.coordinate(Axis::pp) + 1 == instance.mesh.size(Axis::pp);
      EXPECT_EQ(mine, std::vector<int32_t>(all.begin() + begin, all.begin() + begin + (last ? prompts : 0)));
    });
}
INSTANTIATE_TEST_SUITE_P(Prefill, PrefillLayouts,
                         testing::Values(RanksAndKeys{2, {"parallel.tp=2"}},
                                         RanksAndKeys{2, {"parallel.tp=2", "parallel.sp=true"}},
                                         RanksAndKeys{2, {"parallel.ep=2"}}, RanksAndKeys{2, {"parallel.pp=2"}},
                                         RanksAndKeys{2, {"parallel.tp=2", "parallel.etp=1", "parallel.ep=2"}},
                                         RanksAndKeys{4, {"parallel.tp=2", "parallel.pp=2", "parallel.sp=true"}},
                                         RanksAndKeys{4, {"parallel.tp=2", "parallel.ep=2"}},
                                         RanksAndKeys{4, {"parallel.tp=2", "parallel.zero=3"}},
                                         RanksAndKeys{2,
                                                      {"parallel.ep=2", "schedule.moe.chunk_by=experts",
                                                       "schedule.moe.chunks=2", "schedule.moe.rows=token"}},
                                         RanksAndKeys{2,
                                                      {"parallel.tp=2", "parallel.etp=1", "parallel.ep=2",
                                                       "schedule.moe.chunk_by=tokens", "schedule.moe.chunks=2"}}));

TEST(Prefill, ContextParallelismIsRefusedByName) {
  on_ranks(2, [](const comm::ProcessGroup& world) {
    ModelInstance instance(small_recipe({"parallel.cp=2"}), Registry(), world);
    const std::string message = message_of(ExitCode::usage, [&] { firsts(instance, {.prompts = 1, .length = 4}); });
    EXPECT_NE(message.find("parallel.cp (2) must be 1"), message.npos) << message;
  });
}

TEST(Prefill, LongerPromptThanTheContextIsRefused) {
  ModelInstance instance(small_recipe(), Registry(), self);
  EXPECT_THROW(firsts(instance, {.prompts = 1, .length = 9}), std::logic_error);
}

}  // namespace
}  // namespace hexad::tests
