// Subjects of a verification: legal layouts, recipes of runs and oracles, the data.
#include "tools/verify/subject.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "tests/training/training.h"
#include "tests/verify/subject_of_recipe.h"
#include "tools/train/recipe/schedule_check.h"
#include "tools/verify/outcome_text.h"
#include "tools/verify/run_variant.h"
#include "tools/verify/subject_kind.h"

namespace hexad::tests {

using namespace base;
using namespace train;
using namespace verify;
namespace {

TEST_F(SubjectTest, LayoutIsLegalIfTrainingAcceptsIt) {
  const Subject s = subject();
  EXPECT_EQ(s.illegal(layout("tp=2,cp=2", 4)), "");
  EXPECT_EQ(s.illegal(layout("ep=8", 8)), "model.moe.experts must be divisible by parallel.ep");
  EXPECT_EQ(s.illegal(layout("tp=8,etp=1", 8)), "model.heads must be divisible by parallel.tp");
  EXPECT_EQ(s.illegal(layout("dp=8", 8)), "batch.global must be divisible by batch.micro x dp");
}

TEST_F(SubjectTest, RunsFollowTheRecipeButInF64) {
  const Subject s = subject({"train.precision=f32"});
  const Recipe r = s.recipe_for(layout("tp=2,ep=2,sp=true,zero=1,recompute=block", 4));
  EXPECT_EQ(r.train.precision, Precision::f64);
  EXPECT_EQ(r.parallel.tp, 2);
  EXPECT_TRUE(r.parallel.sp);
  EXPECT_EQ(r.parallel.zero, 1);
  EXPECT_EQ(r.recompute, layers::Recompute::block);
  EXPECT_EQ(r.model.hidden, s.recipe().model.hidden);
  EXPECT_EQ(r.run.dir, scratch / "run");
}

TEST_F(SubjectTest, LayerSplitAppliesOnlyToItsNumberOfStages) {
  const Subject s = subject({"parallel.pp=2", "model.layers=4", "schedule.pipeline.split=[1, 3]"});
  EXPECT_EQ(s.recipe_for(layout("pp=2", 2)).schedule.pipeline.split, (std::vector<int64_t>{1, 3}));
  EXPECT_TRUE(s.recipe_for(layout("pp=4", 4)).schedule.pipeline.split.empty());
}

TEST_F(SubjectTest, RunsNeverDecideTheirScheduleAnew) {
  const Subject s = subject({"schedule.moe.duplicates=auto", "schedule.moe.redecide_every=10"});
  EXPECT_EQ(s.illegal(layout("tp=2", 2)), "");
  EXPECT_EQ(s.recipe_for(layout("tp=2", 2)).schedule.moe.redecide_every, 0);
}

TEST_F(SubjectTest, ModelTooBigIsRefusedWithARemedy) {
  EXPECT_EQ(message_of(ExitCode::usage, [&] { subject({"model.vocab=1000000"}); }),
            "the recipe has 32006352 parameters and 64 tokens per step; expected at most 8388608 parameters and 32768 "
            "tokens, because verify computes each step many times in f64 on this machine; add --shrink, or override "
            "model.* and batch.*");
  message_of(ExitCode::usage, [&] { subject({"batch.global=100000"}); });
}

TEST_F(SubjectTest, UnreadableDataIsReplacedAndReported) {
  const Subject s = subject({"data.synthetic=false", "data.dataset=" + scratch / "nothing"});
  EXPECT_TRUE(s.source_text().starts_with("synthetic documents (")) << s.source_text();
  EXPECT_NE(s.source_text().find("nothing"), std::string::npos) << s.source_text();
  EXPECT_EQ(subject().source_text(), "synthetic documents");
}

TEST_F(SubjectTest, EverySubjectChangesTheRecipeOrIsRefused) {
  const Subject s = subject();
  const auto legal = [](const Subject& subject, const char* kind) {
    return subject.illegal(layout(cat("ep=2,subject=", kind).c_str(), 2));
  };
  for (const SubjectKind& kind : subject_kinds()) EXPECT_EQ(legal(s, std::string(kind.name).c_str()), "");
  EXPECT_TRUE(s.recipe_for(layout("dp=2,subject=tied", 2)).model.tied_embedding);
  const layers::ModelConfig forms = s.recipe_for(layout("dp=2,subject=forms", 2)).model;
  EXPECT_EQ(forms.qk_norm, layers::QkNorm::all_heads);
  EXPECT_EQ(forms.rotary_size(), forms.size_of_head() / 2);
  EXPECT_EQ(forms.rotary_scaling.kind, layers::RotaryScaling::llama3);
  EXPECT_EQ(legal(subject({"model.yarn.factor=2", "model.head_size=6"}), "forms"), "");
  EXPECT_TRUE(forms.moe.shared_gate && forms.moe.has_selection_bias());
  EXPECT_TRUE(forms.head_bias && forms.qkv_clip);
  EXPECT_TRUE(forms.sinks && forms.window && forms.swiglu_limit && forms.has_expert_bias() && forms.moe.router_bias);
  EXPECT_EQ(forms.moe.shared_experts, 1);
  EXPECT_TRUE(forms.moe.dense_residual);
  EXPECT_EQ(forms.moe.input, moe::ExpertInput::before_attention);
  EXPECT_EQ(forms.moe.group_score, kernels::RouterGroupScore::best);
  EXPECT_LT(forms.moe.top_groups, forms.moe.groups);
  const Subject by_best = subject({"model.moe.groups=2", "model.moe.group_score=best"});
  EXPECT_EQ(by_best.recipe_for(layout("dp=2,subject=forms", 2)).model.moe.group_score,
            kernels::RouterGroupScore::best_two);
  const layers::ModelConfig latent = s.recipe_for(layout("dp=2,subject=latent", 2)).model;
  EXPECT_TRUE(latent.is_latent());
  EXPECT_EQ(latent.size_of_head(), 5);
  EXPECT_EQ(legal(subject({"model.yarn.factor=2", "model.qk_norm=head", "model.rotary_share=0.5"}), "latent"), "");
  EXPECT_EQ(legal(subject({"model.window=4", "model.sinks=true", "model.swiglu_limit=1"}), "latent"), "");
  EXPECT_EQ(
      legal(subject({"model.attention=latent", "model.kv_heads=auto", "model.head_size=auto", "model.latent.kv_rank=5",
                     "model.latent.nope_size=3", "model.latent.rope_size=2", "model.latent.value_size=4"}),
            "forms"),
      "");
  const std::vector<std::string> longrope{"model.rotary_scaling.kind=longrope",
                                          "model.rotary_scaling.short_factors=[1, 2]",
                                          "model.rotary_scaling.long_factors=[2, 3]"};
  for (const char* kind : {"forms", "latent", "llama4"}) EXPECT_EQ(legal(subject(longrope), kind), "");
  const std::vector<std::string> chunks{"model.attention_chunk=3", "model.no_rotary_every=2",
                                        "model.temperature.scale=0.5", "model.qk_norm=unit"};
  for (const char* kind : {"forms", "latent", "sparse_mixer", "delta_net"}) EXPECT_EQ(legal(subject(chunks), kind), "");
  EXPECT_EQ(s.recipe_for(layout("dp=2,subject=sparse_mixer", 2)).model.moe.router, "sparse_mixer");
  EXPECT_EQ(legal(subject({"model.moe.bias_rate=0.1", "model.moe.router_bias=true", "model.moe.normalize=false"}),
                  "sparse_mixer"),
            "");
  const layers::ModelConfig choosing = s.recipe_for(layout("dp=2,subject=expert_choice", 2)).model;
  EXPECT_TRUE(choosing.moe.experts_choose() && choosing.kind == layers::ModelKind::encoder);
  const std::vector<std::string> mixer{"model.moe.router=sparse_mixer", "model.moe.mixer_jitter=0.3", "model.window=4"};
  EXPECT_EQ(legal(subject(mixer), "expert_choice"), "");
  EXPECT_EQ(legal(subject({"model.moe.bias_rate=0.1", "model.moe.router_bias=true", "model.prediction_blocks=1",
                           "model.moe.routing=zipf", "model.moe.drop=position", "model.moe.capacity_factor=2"}),
                  "expert_choice"),
            "");
  const Subject encoder = subject({"model.kind=encoder", "model.moe.router=expert_choice",
                                   "model.moe.capacity_factor=0.5", "model.moe.aux_loss.coefficient=0"});
  for (const char* kind : {"own", "forms", "sparse_mixer", "sequences", "bf16", "fp8"})
    EXPECT_EQ(legal(encoder, kind), "") << kind;
  EXPECT_EQ(legal(encoder, "zipf"), "subject=zipf changes nothing in this recipe; expected a subject that does");
  const layers::ModelConfig llama4 = s.recipe_for(layout("dp=2,subject=llama4", 2)).model;
  EXPECT_TRUE(llama4.attention_chunk && llama4.no_rotary_every == 2 && llama4.temperature.scale > 0);
  EXPECT_EQ(llama4.moe.weigh, moe::Weighing::input);
  EXPECT_EQ(legal(subject({"model.window=4"}), "llama4"), "");
  EXPECT_EQ(legal(subject({"model.position=learned"}), "llama4"),
            "subject=llama4 changes nothing in this recipe; expected a subject that does");
  const layers::ModelConfig delta = s.recipe_for(layout("dp=2,subject=delta_net", 2)).model;
  EXPECT_TRUE(delta.is_delta(0) && !delta.is_delta(1) && delta.attention_gate);
  EXPECT_EQ(delta.norm, layers::NormKind::zero_centred_rms_norm);
  EXPECT_EQ(legal(subject({"model.window=4", "model.sinks=true", "model.qk_norm=all_heads"}), "delta_net"), "");
  const std::vector<std::string> delta_nets{"model.delta_net.heads=4", "model.delta_net.conv_size=2",
                                            "model.attention_gate=true", "model.norm=zero_centred_rms_norm",
                                            "model.full_attention_every=2"};
  EXPECT_EQ(legal(subject(delta_nets), "forms"), "");
  EXPECT_EQ(legal(subject(delta_nets), "llama4"),
            "subject=llama4 changes nothing in this recipe; expected a subject that does");
  EXPECT_EQ(s.recipe_for(layout("dp=2,subject=prediction", 2)).model.prediction_blocks, 2);
  EXPECT_EQ(legal(subject({"model.prediction_blocks=1"}), "prediction"),
            "subject=prediction changes nothing in this recipe; expected a subject that does");
  EXPECT_EQ(legal(subject({"model.kind=encoder"}), "prediction"),
            "subject=prediction changes nothing in this recipe; expected a subject that does");
  EXPECT_EQ(s.recipe_for(layout("dp=2,subject=bf16", 2)).train.precision, Precision::bf16);
  EXPECT_EQ(s.recipe_for(layout("dp=2,subject=f32", 2)).train.precision, Precision::f32);
  EXPECT_EQ(s.oracle_recipe("bf16").train.precision, Precision::f64);
  EXPECT_EQ(s.recipe_for(layout("dp=2,subject=bf16_logits", 2)).train.logits_dtype, LogitsDtype::bf16);
  EXPECT_EQ(s.recipe_for(layout("dp=2,subject=bf16", 2)).train.logits_dtype, LogitsDtype::f32);
  EXPECT_EQ(s.oracle_recipe("bf16_logits").train.logits_dtype, LogitsDtype::f32);
  EXPECT_EQ(s.recipe_for(layout("dp=2,subject=bf16_moments", 2)).optim.moment_dtype, optim::MomentDtype::bf16);
  EXPECT_EQ(s.oracle_recipe("bf16_moments").optim.moment_dtype, optim::MomentDtype::f32);
  EXPECT_EQ(s.recipe_for(layout("dp=2,subject=bf16_rests", 2)).optim.main_weights, optim::MainWeights::rest);
  EXPECT_EQ(s.oracle_recipe("bf16_rests").optim.main_weights, optim::MainWeights::f32);
  EXPECT_EQ(s.oracle_recipe("bf16").optim.eps, s.recipe_for(layout("dp=2,subject=bf16", 2)).optim.eps);
  EXPECT_EQ(s.recipe_for(layout("dp=2,subject=aux_global_batch", 2)).model.moe.aux_loss.scope,
            moe::AuxScope::global_batch);
  EXPECT_EQ(legal(subject({"train.precision=bf16", "optim.moment_dtype=bf16"}), "own"), "");
  EXPECT_EQ(legal(subject({"train.precision=bf16", "train.logits_dtype=bf16"}), "own"), "");
  EXPECT_EQ(legal(subject({"train.precision=bf16", "optim.main_weights=rest"}), "own"), "");
  EXPECT_EQ(legal(subject({"optim.name=sgd"}), "bf16_rests"),
            "subject=bf16_rests changes nothing in this recipe; expected a subject that does");
  EXPECT_EQ(s.recipe_for(layout("dp=2,subject=muon", 2)).optim.name, "muon");
  EXPECT_EQ(legal(subject({"optim.name=muon"}), "muon"),
            "subject=muon changes nothing in this recipe; expected a subject that does");
  for (const char* key : {"schedule.moe.wire=fp8", "optim.overlap=true"})
    EXPECT_EQ(legal(subject({key}), "muon"), "") << key;
  EXPECT_EQ(legal(subject({"model.tied_embedding=true"}), "tied"),
            "subject=tied changes nothing in this recipe; expected a subject that does");
  EXPECT_EQ(legal(subject({"optim.name=sgd"}), "bf16_moments"),
            "subject=bf16_moments changes nothing in this recipe; expected a subject that does");
  EXPECT_EQ(legal(subject({"model.moe.experts=0", "model.mlp_hidden=12"}), "zipf"),
            "subject=zipf changes nothing in this recipe; expected a subject that does");
}

TEST_F(SubjectTest, EventfulOracleStartsAtOtherWeightsAndSkipsItsFirstStep) {
  const Subject s = subject();
  Oracles oracles(s);
  const Oracle &own = oracles.of(layout("dp=2", 2)), &eventful = oracles.of(layout("dp=2,subject=eventful", 2));
  const auto weights = [](const Oracle& o, size_t step) { return o.steps[step].weights.at("head.weight").values; };
  EXPECT_EQ(weights(eventful, 0), weights(own, 1));
  EXPECT_TRUE(eventful.steps[1].result.skipped);
  EXPECT_EQ(weights(eventful, 1), weights(eventful, 0));
  EXPECT_FALSE(eventful.steps[2].result.skipped);
  EXPECT_NE(weights(eventful, 2), weights(eventful, 1));
  EXPECT_LT(eventful.steps[2].result.lr, eventful.steps[1].result.lr);
}

// The loop of `hexad train` skips a step with a frozen weight that is not finite. The oracle skips the step because the
// gradient of a trained parameter is not finite.
TEST_F(SubjectTest, EventfulRunsOfAFrozenHeadSkipTheirFirstStep) {
  const Subject s = subject({"optim.freeze=[head.weight]"});
  Oracles oracles(s);
  for (const char* text : {"dp=2,zero=1,subject=eventful", "dp=2,zero=1,start=trained,subject=eventful"}) {
    const Variant v = layout(text, 2);
    const Oracle& eventful = oracles.of(v);
    EXPECT_EQ(eventful.ruined, "head.weight");
    EXPECT_EQ(eventful.ruined_gradient, "norm.weight");
    EXPECT_TRUE(eventful.steps[1].result.skipped);
    EXPECT_FALSE(eventful.steps[2].result.skipped);
    const Outcome o = run_in_threads(s, eventful, v, {.jitter = {}, .seconds = 60});
    EXPECT_TRUE(o.agrees()) << text << ": " << explanation(o);
  }
}

// Keys that need a card would make the oracle's recipe illegal.
TEST_F(SubjectTest, OracleOfARecipeForACardIsOnTheCpu) {
  const Subject s =
      subject({"device=cuda", "distributed.reserve_multiprocessors=8", "distributed.device_collectives=nccl"});
  for (const char* kind : {"own", "bf16"}) {
    const Recipe oracle = s.oracle_recipe(kind);
    EXPECT_EQ(oracle.device, device::DeviceKind::cpu);
    EXPECT_FALSE(oracle.distributed.reserve_multiprocessors);
    EXPECT_EQ(oracle.distributed.device_collectives, comm::DeviceCollectives::automatic);
  }
  const Recipe run = s.recipe_for(layout("dp=2", 2));
  EXPECT_EQ(run.device, device::DeviceKind::cuda);
  EXPECT_EQ(run.distributed.reserve_multiprocessors, 8);
}

// This oracle applies the capacity limit of experts to each sequence separately. Therefore, the number of sequences in
// a micro-batch has no effect.
TEST_F(SubjectTest, OracleOfSequencesHasMicroBatchesOfOne) {
  const Subject s = subject();
  EXPECT_EQ(s.oracle_recipe("sequences").batch.micro, 1);
  EXPECT_EQ(s.recipe_for(layout("dp=2,subject=sequences", 2)).batch.micro, s.recipe().batch.micro);
  EXPECT_EQ(s.oracle_recipe("sequences").model.moe.capacity_scope, moe::CapacityScope::sequence);
}

// Returns the experts of the tokens in each half of the first two batches under the subject idle_ranks.
std::vector<std::set<int>> experts_of_halves(const Subject& s) {
  compute_oracle(s, Saves::no, "idle_ranks");
  std::ifstream trace(s.trace_file());
  std::vector<std::set<int>> halves(4);
  const int64_t of_half = s.recipe().batch.global * s.recipe().model.context / 2 * s.recipe().model.moe.top_k;
  int64_t slot = 0;
  for (int expert = 0; trace >> expert; ++slot) halves.at(static_cast<size_t>(slot / of_half)).insert(expert);
  EXPECT_EQ(slot, 4 * of_half);
  return halves;
}

// In the first batch, one replica of some experts has rows, and another replica of the same experts has no rows. In
// the second batch, some experts have no rows on any rank.
TEST_F(SubjectTest, IdleRanksHaveBusyReplicas) {
  using Halves = std::vector<std::set<int>>;
  EXPECT_EQ(experts_of_halves(subject({"model.moe.experts=8", "batch.global=4"})),
            (Halves{{0, 1}, {4, 5}, {0, 1}, {0, 1}}));
  EXPECT_EQ(experts_of_halves(subject({"model.moe.experts=6", "model.moe.top_k=4", "batch.global=4"})),
            (Halves{{0, 1, 2, 3}, {2, 3, 4, 5}, {0, 1, 2, 3}, {0, 1, 2, 3}}));
}

TEST_F(SubjectTest, NoRankIsIdleIfTokensVisitAllExperts) {
  EXPECT_EQ(subject({"model.moe.top_k=3"}).illegal(layout("ep=2,subject=idle_ranks", 2)), "");
  EXPECT_EQ(subject({"model.moe.top_k=4"}).illegal(layout("ep=2,subject=idle_ranks", 2)),
            "subject=idle_ranks changes nothing in this recipe; expected a subject that does");
}

TEST_F(SubjectTest, MemoryLimitIsTheLeastLegalLimitOfTheLayout) {
  const Subject s = subject();
  const Recipe r = s.recipe_for(layout("dp=2,ep=2,memory_reuse=s1_limited", 2));
  ASSERT_TRUE(r.schedule.moe.memory_limit);
  EXPECT_EQ(r.schedule.moe.memory_reuse, moe::ReuseStrategy::s1);
  EXPECT_EQ(*r.schedule.moe.memory_limit, least_memory_limit(r, moe::ReuseStrategy::s1));
  EXPECT_FALSE(s.recipe_for(layout("dp=2,ep=2,memory_reuse=s1", 2)).schedule.moe.memory_limit);
}

TEST_F(SubjectTest, OneStepLeavesNothingToResume) {
  EXPECT_EQ(subject({}, 1).illegal(layout("dp=2,start=resumed", 2)),
            "start=resumed begins after the first step: --steps must be at least 2");
  EXPECT_EQ(subject({}, 2).illegal(layout("dp=2,start=resumed", 2)), "");
}

TEST_F(SubjectTest, WatchdogIsTheRecipesOrShorterThanTheTimeout) {
  EXPECT_EQ(watchdog_seconds(small_recipe({"distributed.watchdog_seconds=7"}), 240), 7);
  EXPECT_EQ(watchdog_seconds(small_recipe(), 240), 60);
  EXPECT_EQ(watchdog_seconds(small_recipe({"distributed.watchdog_seconds=0"}), 240), 0);
}

TEST_F(SubjectTest, WindowsNeedEveryEpGroupOnOneNode) {
  const Subject s = subject();
  EXPECT_EQ(s.illegal(layout("ep=2,window=yes", 4)), "");
  EXPECT_EQ(s.illegal(layout("pp=2,ep=2,window=yes", 4)), "");
  EXPECT_EQ(s.illegal(layout("ep=4,window=yes", 4)), "window=yes needs every ep group on one node");
  EXPECT_EQ(s.illegal(layout("ep=2,window=yes", 2)), "window=yes needs every ep group on one node");
}

TEST_F(SubjectTest, TwoStepsNeedAnOrderOfAxesWithEveryEpGroupOnTwoNodes) {
  const Subject s = subject();
  const auto illegal = [&](const char* mesh, std::string_view order) {
    return s.illegal(layout(cat(mesh, ",order=", order, ",all_to_all=hierarchical").c_str(), 8));
  };
  const auto reason = [](std::string_view order) {
    return cat("all_to_all=hierarchical with order=", order,
               " needs every ep group on several nodes, with several ranks on each");
  };
  EXPECT_EQ(illegal("tp=2,ep=4", "auto"), "");
  EXPECT_EQ(illegal("tp=2,ep=4", "ep-tp-dp-cp-pp"), reason("ep-tp-dp-cp-pp"));
  EXPECT_EQ(illegal("pp=2,ep=4", "auto"), reason("auto"));
  EXPECT_EQ(illegal("pp=2,ep=4", "pp-dp-ep-cp-tp"), "");
}

TEST_F(SubjectTest, NodesOfProcessesReplaceTheNodesOfThreads) {
  const auto illegal = [&](const std::vector<int>& nodes, const char* text) {
    return Subject(completed(small_recipe()), registry, 2, scratch.path(), CardsOfThreads::one, nodes)
        .illegal(layout(text, 4));
  };
  EXPECT_EQ(illegal({0, 0, 0, 0}, "ep=4,window=yes"), "");
  EXPECT_EQ(illegal({0, 1, 1, 0}, "ep=2,window=yes"), "window=yes needs every ep group on one node");
  const char* const two_steps = "ep=4,all_to_all=hierarchical";
  EXPECT_EQ(illegal({0, 1, 0, 1}, two_steps), "");
  for (const std::vector<int>& nodes : {std::vector{0, 0, 0, 0}, {0, 0, 0, 1}, {0, 1, 2, 3}})
    EXPECT_EQ(illegal(nodes, two_steps),
              "all_to_all=hierarchical with order=auto needs every ep group on several nodes, with several ranks on "
              "each");
}

TEST_F(SubjectTest, TwoStepsAreLegalOnAnyNodesOfProcessesThatMakeTwoLevels) {
  const auto illegal = [&](const std::vector<int>& nodes) {
    const Recipe recipe = small_recipe({"model.moe.experts=6", "batch.global=12"});
    return Subject(completed(recipe), registry, 2, scratch.path(), CardsOfThreads::one, nodes)
        .illegal(layout("ep=6,all_to_all=hierarchical", 6));
  };
  EXPECT_EQ(illegal({0, 0, 0, 1, 1, 1}), "");
  EXPECT_EQ(illegal({0, 0, 1, 1, 2, 2}), "");
  EXPECT_NE(illegal({0, 0, 0, 0, 1, 1}), "");
}

TEST_F(SubjectTest, WindowsOfCardsNeedNccl) {
  const auto illegal_with = [&](const char* collectives) {
    return subject({"device=cuda", cat("distributed.device_collectives=", collectives)})
        .illegal(layout("ep=2,window=yes", 4));
  };
  EXPECT_EQ(illegal_with("host"), "window=yes needs distributed.device_collectives auto or nccl");
  EXPECT_EQ(illegal_with("auto"), "");
  EXPECT_EQ(illegal_with("nccl"), "");
}

TEST_F(SubjectTest, WindowsOfThreadsOnSeveralCardsNeedNcclByName) {
  const auto illegal_with = [&](const char* collectives) {
    const Recipe recipe = small_recipe({"device=cuda", cat("distributed.device_collectives=", collectives)});
    return Subject(completed(recipe), registry, 2, scratch.path(), CardsOfThreads::several)
        .illegal(layout("ep=2,window=yes", 4));
  };
  EXPECT_EQ(illegal_with("auto"),
            "window=yes with ranks that are threads on several GPUs needs distributed.device_collectives nccl");
  EXPECT_EQ(illegal_with("nccl"), "");
}

TEST(CutFurther, KeepsTheDataAndAddsBoundariesAndSequencesWithoutTargets) {
  const FixedSource source = documents(10, 16, 40, 1);
  const FixedSource cut = cut_further(source, 10, 2);
  const data::Batch before = source.batch(0, 10), after = cut.batch(0, 10);
  EXPECT_EQ(before.ids, after.ids);
  EXPECT_NE(before.first, after.first);
  for (size_t i = 0; i < after.ids.size(); ++i) {
    EXPECT_GE(after.first[i], before.first[i]);
    EXPECT_LE(after.last[i], before.last[i]);
    EXPECT_LT(after.first[i], after.last[i]);
    EXPECT_TRUE(after.targets[i] == before.targets[i] || after.targets[i] == data::ignored);
  }
  for (size_t t = 0; t < 16; ++t) EXPECT_EQ(after.targets[16 + t], data::ignored);  // sequence 1 has no targets
}

}  // namespace
}  // namespace hexad::tests
