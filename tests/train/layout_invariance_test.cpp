// Layout invariance: a recipe gives the same training run under every layout. In f64, results on 2 and 4 ranks equal
// the results on one rank up to 1e-10. Most tests compare losses, gradient norm, router statistics and every gradient
// of three steps, and the weights and states after these steps. `hexad verify` tests many more layouts.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "parallel/comm/self_group.h"
#include "tests/training/test_folder.h"
#include "tests/training/training.h"

namespace hexad::tests {

using namespace base;
using namespace train;
using namespace verify;
namespace {

constexpr double layout_tolerance = 1e-10;  // from the project's definition of layout invariance
constexpr int steps = 3;

struct Layout {
  int ranks;
  ParallelConfig parallel;
};
const Layout layouts[] = {
    {2, {}},
    {2, {.ep = 2}},
    {4, {.ep = 2}},
    {4, {.ep = 4}},
    {2, {.tp = 2}},
    {2, {.tp = 2, .sp = true, .ep = 2, .etp = 1}},
    {4, {.tp = 4, .ep = 2, .etp = 2}},  // more tp ranks than key/value heads
    {2, {.cp = 2, .ep = 2}},
    {2, {.cp = 2, .cp_kind = cp::ContextKind::all_gather}},
    {2, {.pp = 2}},
    {4, {.pp = 2, .tp = 2, .sp = true, .zero = 1}},
    {4, {.tp = 2, .sp = true, .cp = 2, .cp_kind = cp::ContextKind::ulysses, .ep = 4, .etp = 1}},
    {4, {.pp = 2, .ep = 2, .zero = 3}},
    {4, {.tp = 2, .order = "tp-cp-dp-ep-pp", .ep = 2, .etp = 1}},              // each tp rank has whole experts
    {4, {.tp = 2, .sp = true, .order = "ep-tp-dp-cp-pp", .ep = 2, .etp = 2}},  // etp groups cross tp groups
    {4, {.pp = 2, .cp = 2, .order = "pp-cp-ep-dp-tp", .ep = 2, .zero = 1}},  // neighbouring ranks have different stages
};

std::string name_of(const Layout& l) { return cat(l.ranks, " ranks: ", describe(l.parallel, l.ranks)); }

Recipe laid_out(Recipe recipe, const Layout& layout) {
  recipe.parallel = layout.parallel;
  return recipe;
}

// True if the layout can split the recipe's model and run its schedule. Other layouts are skipped.
bool possible(const Recipe& r, const Layout& l) {
  const int64_t experts = r.model.moe.experts;
  if (experts == 0) return l.parallel.ep == 1;
  using moe::Duplicates;
  const Duplicates d = r.schedule.moe.settled().duplicates;
  const int64_t tp = l.parallel.tp, etp = l.parallel.etp.value_or(tp);
  if (r.schedule.moe.all_to_all == ep::AllToAll::window && etp > 1) return false;
  if (l.parallel.sp && (d == Duplicates::replicated || d == Duplicates::pause_after_gate)) return false;
  return experts % l.parallel.ep == 0 &&
         (d != Duplicates::replicated || (tp % etp == 0 && !l.parallel.etp_across_tp()));
}

void expect_same_under_every_layout(const Recipe& recipe, const data::Source& source) {
  const Trajectory one = one_rank_trajectory(recipe, source, steps);
  for (const Layout& layout : layouts) {
    if (!possible(recipe, layout)) continue;
    SCOPED_TRACE(name_of(layout));
    on_ranks(layout.ranks, [&](const comm::ProcessGroup& world) {
      TrainingRun run(laid_out(recipe, layout), world);
      expect_close(one, trajectory(run, source, steps), layout_tolerance);
    });
  }
}

struct Case {
  std::string name;
  std::vector<std::string> overrides;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class EveryLayout : public testing::TestWithParam<Case> {};

TEST_P(EveryLayout, EqualsOneRankInF64) {
  const Recipe recipe = small_recipe(GetParam().overrides);
  expect_same_under_every_layout(recipe, documents_of(recipe));
}

INSTANTIATE_TEST_SUITE_P(
    , EveryLayout,
    testing::Values(
        Case{"Adamw", {}}, Case{"Muon", {"optim.name=muon", "optim.lr=0.001"}},
        Case{"MuonOfSharedAndDenseParts",
             {"optim.name=muon", "optim.lr=0.001", "model.moe.shared_experts=2", "model.moe.shared_gate=true",
              "model.moe.dense_residual=true", "model.mlp_hidden=20", "model.bias=true",
              "optim.muon_except=[layers.0.*]"}},
        // Adam hides a wrong scale of a gradient, and clipping hides a wrong common scale of all gradients. This case
        // uses neither.
        Case{"Sgd", {"optim.name=sgd", "optim.lr=0.5", "optim.clip=0"}},
        Case{"MicroBatchesOfOne", {"optim.name=sgd", "batch.micro=1"}},
        Case{"CapacityByProbability", {"model.moe.capacity_factor=1"}},
        Case{"CapacityByPositionAndSequence",
             {"model.moe.capacity_factor=0.8", "model.moe.drop=position", "model.moe.capacity_scope=sequence"}},
        Case{"CapacityByProbabilityAndSequence", {"model.moe.capacity_factor=1", "model.moe.capacity_scope=sequence"}},
        Case{"CapacityByPosition", {"model.moe.capacity_factor=0.8", "model.moe.drop=position"}},
        Case{"BiasBalancing", {"model.moe.bias_rate=0.05", "model.moe.score=sigmoid"}},
        Case{"AuxOverTheGlobalBatch", {"model.moe.aux_loss.scope=global_batch", "optim.name=sgd"}},
        Case{"AuxOverSequences", {"model.moe.aux_loss.scope=sequence", "optim.name=sgd"}},
        Case{"AuxAndZLoss", {"model.moe.z_loss=0.01", "optim.name=sgd"}},
        Case{"SharedExperts", {"model.moe.shared_experts=2", "model.moe.shared_hidden=10"}},
        Case{"GatedSharedExperts",
             {"model.moe.shared_experts=2", "model.moe.shared_gate=true", "model.moe.normalize_floor=0.7",
              "optim.name=sgd"}},
        Case{"GatedSharedExpertsReplicated",
             {"model.moe.shared_experts=1", "model.moe.shared_gate=true", "schedule.moe.duplicates=replicated",
              "optim.name=sgd", "optim.clip=0"}},
        Case{"DenseResidual", {"model.moe.dense_residual=true", "model.mlp_hidden=20"}},
        Case{"ExpertsBeforeAttention", {"model.moe.input=before_attention"}},
        Case{"Arctic", {"model.moe.input=before_attention", "model.moe.dense_residual=true", "model.mlp_hidden=20"}},
        Case{"SigmoidWithGroups",
             {"model.moe.experts=8", "model.moe.score=sigmoid", "model.moe.groups=4", "model.moe.top_groups=2",
              "model.moe.scale=2.5"}},
        Case{"GroupsRankedByTheirBest",
             {"model.moe.experts=8", "model.moe.groups=4", "model.moe.top_groups=2", "model.moe.group_score=best",
              "model.moe.normalize=false", "optim.name=sgd"}},
        Case{"TopOneNotNormalised", {"model.moe.top_k=1", "model.moe.normalize=false"}},
        Case{"ExpertsChooseTokens",
             {"model.kind=encoder", "model.moe.router=expert_choice", "model.moe.capacity_factor=0.7",
              "model.moe.aux_loss.coefficient=0", "model.moe.z_loss=0.01", "optim.name=sgd"}},
        Case{"ExpertsChooseTokensOfSequences",
             {"model.kind=encoder", "model.moe.router=expert_choice", "model.moe.capacity_factor=0.5",
              "model.moe.aux_loss.coefficient=0", "model.moe.capacity_scope=sequence", "model.moe.top_k=4",
              "optim.name=sgd"}},
        Case{"SparseMixer", {"model.moe.router=sparse_mixer", "model.moe.mixer_jitter=0.3", "optim.name=sgd"}},
        Case{"ZipfRouting", {"model.moe.routing=zipf", "model.moe.zipf_exponent=1.5"}},
        Case{"BalancedRouting", {"model.moe.routing=balanced"}},
        Case{"DenseLayersAndEveryOther",
             {"model.layers=5", "model.moe.dense_layers=1", "model.moe.every=2", "model.mlp_hidden=20"}},
        Case{"BiasesAndGelu",
             {"model.bias=true", "model.mlp=gelu", "model.moe.expert=gelu", "model.moe.shared_experts=1"}},
        Case{"BiasesOfQueriesKeysAndValues", {"model.qkv_bias=true", "optim.name=sgd"}},
        Case{"BiasesExceptOfQueriesKeysAndValues",
             {"model.bias=true", "model.qkv_bias=false", "model.o_bias=true", "optim.name=sgd"}},
        Case{"LayerNormAndLearnedPositions", {"model.norm=layer_norm", "model.position=learned"}},
        Case{"TiedEmbeddingQkNormAndClip", {"model.tied_embedding=true", "model.qk_norm=true", "model.qkv_clip=1.5"}},
        Case{"AttentionChunks", {"model.attention_chunk=3", "model.full_attention_every=2"}},
        Case{"AttentionChunksOfRecomputedBlocks", {"model.attention_chunk=3", "recompute=block"}},
        Case{"BlocksWithoutRotaryPositions",
             {"model.no_rotary_every=2", "model.temperature.scale=0.5", "model.temperature.floor=3",
              "model.qk_norm=unit", "optim.name=sgd"}},
        Case{"WeighedInputs",
             {"model.moe.top_k=1", "model.moe.weigh=input", "model.moe.normalize=false", "model.moe.score=sigmoid",
              "model.moe.shared_experts=1", "optim.name=sgd"}},
        Case{"WeighedInputsReplicated",
             {"model.moe.top_k=1", "model.moe.weigh=input", "model.moe.normalize=false", "model.moe.score=sigmoid",
              "schedule.moe.duplicates=replicated", "optim.name=sgd", "optim.clip=0"}},
        Case{"WeighedInputsReuseS4",
             {"model.moe.top_k=1", "model.moe.weigh=input", "model.moe.normalize=false", "schedule.moe.memory_reuse=s4",
              "schedule.moe.chunk_by=tokens", "schedule.moe.chunks=3"}},
        Case{"HeadBias", {"model.head_bias=true", "optim.name=sgd"}},
        Case{"HeadBiasOfATiedEmbedding",
             {"model.head_bias=true", "model.tied_embedding=true", "model.prediction_blocks=1"}},
        Case{"Windows", {"model.window=3", "model.full_attention_every=2"}},
        Case{"ClampedSwigluWithBiases",
             {"model.swiglu_limit=1", "model.moe.expert_bias=true", "model.moe.router_bias=true", "optim.name=sgd"}},
        Case{"ClampedSwigluInAllMlps",
             {"model.swiglu_limit=1", "model.moe.shared_experts=1", "model.moe.dense_residual=true",
              "model.mlp_hidden=20"}},
        Case{"Sinks", {"model.sinks=true", "model.window=5", "optim.name=sgd"}},
        Case{"SinksOfRecomputedBlocks", {"model.sinks=true", "recompute=block"}},
        Case{"NormOverAllHeads", {"model.qk_norm=all_heads", "model.qkv_clip=1.5", "optim.name=sgd"}},
        Case{"NormOverAllHeadsOfRecomputedBlocks", {"model.qk_norm=all_heads", "recompute=block"}},
        Case{"LatentAttention",
             {"model.attention=latent", "model.kv_heads=auto", "model.head_size=auto", "model.latent.q_rank=6",
              "model.latent.kv_rank=5", "model.latent.nope_size=3", "model.latent.rope_size=2",
              "model.latent.value_size=4", "optim.name=sgd"}},
        Case{"LatentAttentionOfRecomputedBlocks",
             {"model.attention=latent", "model.kv_heads=auto", "model.head_size=auto", "model.latent.kv_rank=5",
              "model.latent.nope_size=3", "model.latent.rope_size=2", "model.latent.value_size=2", "recompute=block",
              "model.o_bias=true"}},
        Case{"LatentAttentionWithWindowsAndSinks",
             {"model.attention=latent", "model.kv_heads=auto", "model.head_size=auto", "model.latent.kv_rank=5",
              "model.latent.nope_size=3", "model.latent.rope_size=2", "model.latent.value_size=4", "model.window=3",
              "model.full_attention_every=2", "model.sinks=true", "optim.name=sgd"}},
        Case{"DeltaNets",
             {"model.delta_net.heads=8", "model.delta_net.key_heads=4", "model.delta_net.key_size=3",
              "model.delta_net.value_size=2", "model.delta_net.conv_size=2", "optim.name=sgd"}},
        Case{"DeltaNetsBesideGatedAttention",
             {"model.delta_net.heads=4", "model.delta_net.key_size=3", "model.delta_net.value_size=5",
              "model.delta_net.conv_size=2", "model.full_attention_every=2", "model.attention_gate=true",
              "model.norm=zero_centred_rms_norm", "model.qk_norm=head", "model.rotary_share=0.5",
              "model.moe.shared_experts=1", "model.moe.shared_gate=true", "optim.name=sgd"}},
        Case{"DeltaNetsOfRecomputedBlocks",
             {"model.delta_net.heads=4", "model.delta_net.key_size=2", "model.delta_net.value_size=3",
              "model.delta_net.conv_size=2", "model.full_attention_every=2", "recompute=block", "optim.name=sgd"}},
        Case{"PredictionBlocks", {"model.prediction_blocks=2", "model.prediction_weight=0.7", "optim.name=sgd"}},
        Case{"PredictionBlocksOfTiedEmbeddings",
             {"model.prediction_blocks=1", "model.tied_embedding=true", "recompute=block", "model.moe.bias_rate=0.05",
              "model.moe.score=sigmoid"}},
        Case{"PredictionBlocksWithLatentAttention",
             {"model.attention=latent", "model.kv_heads=auto", "model.head_size=auto", "model.latent.kv_rank=5",
              "model.latent.nope_size=3", "model.latent.rope_size=2", "model.latent.value_size=2",
              "model.moe.shared_experts=1", "model.prediction_blocks=1", "optim.name=sgd", "optim.clip=0"}},
        Case{"PartlyRotatedHeads",
             {"model.rotary_share=0.5", "model.rotary_scaling.kind=llama3", "model.rotary_scaling.factor=2",
              "model.rotary_scaling.original_context=16"}},
        Case{"LongRope",
             {"model.rotary_scaling.kind=longrope", "model.rotary_scaling.short_factors=[1, 2]",
              "model.rotary_scaling.long_factors=[3, 4]", "model.rotary_scaling.long_magnitude=1.5",
              "model.rotary_scaling.original_context=4"}},
        Case{"RecomputedBlocks", {"recompute=block", "model.moe.capacity_factor=1"}},
        Case{"RecomputedBlocksOfExpertsThatChooseTokens",
             {"recompute=block", "model.kind=encoder", "model.moe.router=expert_choice",
              "model.moe.capacity_factor=0.7", "model.moe.aux_loss.coefficient=0"}},
        Case{"Dense", {"model.moe.experts=0", "model.mlp_hidden=20"}},
        Case{"WorkerLanes", {"schedule.worker_lanes=true", "recompute=block", "model.moe.shared_experts=1"}},
        Case{"Drop", {"schedule.moe.duplicates=drop", "model.moe.z_loss=0.01", "optim.name=sgd"}},
        Case{"DropWithCapacityAndChunks",
             {"schedule.moe.duplicates=drop", "schedule.moe.chunk_by=tokens", "schedule.moe.chunks=3",
              "model.moe.capacity_factor=1"}},
        Case{"PauseBeforeGateEspDirect",
             {"schedule.moe.esp_exchange=direct", "model.bias=true", "model.moe.expert=gelu"}},
        Case{"PauseAfterGateEspDirect",
             {"schedule.moe.duplicates=pause_after_gate", "schedule.moe.esp_exchange=direct", "optim.name=sgd"}},
        Case{"Baseline", {"schedule.moe.duplicates=baseline", "optim.name=sgd", "optim.clip=0"}},
        Case{"BaselinePaddedToTheCapacity",
             {"schedule.moe.duplicates=baseline", "schedule.moe.capacity_padding=full", "model.moe.capacity_factor=1.2",
              "optim.name=sgd", "optim.clip=0"}},
        Case{"Replicated", {"schedule.moe.duplicates=replicated", "optim.name=sgd", "optim.clip=0"}},
        Case{"FusedExperts", {"schedule.moe.fused=on", "optim.name=sgd"}},
        Case{"FusedExpertsReuseS4",
             {"schedule.moe.fused=on", "schedule.moe.memory_reuse=s4", "schedule.moe.chunk_by=tokens",
              "schedule.moe.chunks=3"}},
        Case{"RowsThroughWindows", {"schedule.moe.all_to_all=window", "optim.name=sgd"}},
        Case{"ChunksThroughWindows",
             {"schedule.moe.all_to_all=window", "schedule.moe.chunk_by=tokens", "schedule.moe.chunks=3",
              "schedule.worker_lanes=true", "recompute=block"}},
        Case{"RowsOfTokens", {"schedule.moe.rows=token", "model.moe.capacity_factor=1", "optim.name=sgd"}},
        Case{"RowsOfTokensByExperts",
             {"schedule.moe.rows=token", "schedule.moe.chunk_by=experts", "schedule.moe.chunks=2",
              "model.moe.experts=8", "model.bias=true"}},
        Case{"PauseAfterGateInPhases",
             {"schedule.moe.duplicates=pause_after_gate", "schedule.moe.esp_exchange=direct",
              "schedule.moe.overlap=a2a_allgather", "schedule.moe.chunks=2", "optim.name=sgd"}},
        Case{"O2", {"schedule.moe.overlap=a2a_allgather", "schedule.moe.chunks=3"}},
        Case{"O3WithDrop",
             {"schedule.moe.duplicates=drop", "schedule.moe.overlap=a2a_allgather_copy", "schedule.moe.chunks=2"}},
        Case{"ReuseS1", {"schedule.moe.memory_reuse=s1", "schedule.moe.chunk_by=tokens", "schedule.moe.chunks=3"}},
        Case{"ReuseS2Biases",
             {"schedule.moe.memory_reuse=s2", "schedule.moe.chunk_by=tokens", "schedule.moe.chunks=3",
              "model.bias=true", "model.moe.expert=gelu", "optim.name=sgd"}},
        Case{"ReuseS3Capacity", {"schedule.moe.memory_reuse=s3", "model.moe.capacity_factor=1"}},
        Case{"ReuseS4EspDirect",
             {"schedule.moe.memory_reuse=s4", "schedule.moe.chunk_by=tokens", "schedule.moe.chunks=4",
              "schedule.moe.esp_exchange=direct", "optim.name=sgd"}},
        Case{"ReuseS4Drop",
             {"schedule.moe.memory_reuse=s4", "schedule.moe.chunk_by=tokens", "schedule.moe.chunks=3",
              "schedule.moe.duplicates=drop", "optim.name=sgd"}},
        Case{"ReuseS1InPairs",
             {"schedule.pipeline.overlap=micro_batches", "schedule.moe.memory_reuse=s1", "schedule.moe.chunk_by=tokens",
              "schedule.moe.chunks=3", "batch.micro=1"}},
        Case{"ReuseS4EspDirectInPairs",
             {"schedule.pipeline.overlap=micro_batches", "schedule.moe.memory_reuse=s4", "schedule.moe.chunk_by=tokens",
              "schedule.moe.chunks=2", "schedule.moe.esp_exchange=direct", "batch.micro=1", "optim.name=sgd"}},
        Case{"Shadow", {"schedule.moe.hot_experts=shadow", "schedule.moe.hot_load=1", "optim.name=sgd"}},
        Case{"ShadowChunksRecomputed",
             {"schedule.moe.hot_experts=shadow", "schedule.moe.hot_load=1.2", "schedule.moe.chunk_by=tokens",
              "schedule.moe.chunks=3", "recompute=block", "model.bias=true", "model.moe.expert=gelu"}},
        Case{"ShadowDropChunks",
             {"schedule.moe.hot_experts=shadow", "schedule.moe.hot_load=1", "schedule.moe.duplicates=drop",
              "schedule.moe.chunk_by=tokens", "schedule.moe.chunks=2", "model.moe.capacity_factor=1"}},
        Case{"ShadowReuseS4",
             {"schedule.moe.hot_experts=shadow", "schedule.moe.hot_load=1", "schedule.moe.memory_reuse=s4",
              "schedule.moe.chunk_by=tokens", "schedule.moe.chunks=3", "optim.name=sgd"}},
        // There are more chunks than tokens.
        Case{"ChunksOfOneTokenAndOfNone",
             {"schedule.moe.chunk_by=tokens", "schedule.moe.chunks=64", "recompute=block"}},
        // Every parameter has its own bucket, so reductions run during backward.
        Case{"SmallBuckets", {"distributed.bucket_bytes=1"}}),
    [](const auto& i) { return i.param.name; });

TEST(Layouts, EncodersTrainAlikeUnderSeveralLayouts) {
  const Recipe recipe = small_recipe({"model.kind=encoder"});
  expect_same_under_every_layout(recipe, documents_of(recipe));
}

// Experts 2 and 3 get no token in any step. Half of the ranks get no row if ep is 2 or 4.
TEST(Layouts, RankWithoutTokensJoinsWithZeroGradients) {
  const Scratch scratch;
  std::ofstream(scratch / "trace") << "0 1\n1 0\n";
  const Recipe recipe = small_recipe(
      {"model.moe.routing=trace", "model.moe.trace=" + scratch / "trace", "model.bias=true", "optim.weight_decay=0"});
  const FixedSource source = documents_of(recipe);
  expect_same_under_every_layout(recipe, source);
  const Trajectory alone = one_rank_trajectory(recipe, source, 1);
  for (const auto& [name, gradient] : alone.steps[0].gradients)
    if (name.find(".experts.") != std::string::npos) expect_zeros(gradient.slice(0, 2, 4));
}

TEST(Layouts, EqualOneRankIfEveryTokenChoosesOneExpertWithAndWithoutDrops) {
  const Scratch scratch;
  std::ofstream(scratch / "trace") << "3\n";
  for (const char* capacity : {"none", "1.5"}) {
    SCOPED_TRACE(testing::Message() << "capacity_factor " << capacity);
    const Recipe recipe = small_recipe({"model.moe.routing=trace", "model.moe.trace=" + scratch / "trace",
                                        "model.moe.top_k=1", std::string("model.moe.capacity_factor=") + capacity});
    const FixedSource source = documents_of(recipe);
    expect_same_under_every_layout(recipe, source);
    const StepResult result = one_rank_trajectory(recipe, source, 1).steps[0].result;
    EXPECT_EQ(result.routers[0].counts, (std::vector<int64_t>{0, 0, 0, 64}));
    // 1.5 * 16 / 4 = 6 of the 16 tokens of a micro-batch are kept if there is a capacity factor.
    EXPECT_EQ(result.routers[0].dropped, recipe.model.moe.capacity_factor ? 4 * (16 - 6) : 0);
  }
}

TEST(Layouts, RanksWithoutTargetsJoin) {
  const Recipe recipe = small_recipe({"optim.name=sgd"});
  data::Batch batch = documents_of(recipe).batch(0, recipe.batch.global);
  std::fill(batch.targets.begin(), batch.targets.begin() + static_cast<ptrdiff_t>(batch.targets.size() / 2),
            data::ignored);  // targets of the first half of the sequences
  expect_same_under_every_layout(recipe, FixedSource(batch));
}

TEST(Layouts, StepWithoutTargetsChangesNothingUnderSeveralLayouts) {
  const Recipe recipe = small_recipe({"optim.weight_decay=0.5", "model.moe.bias_rate=0.1"});
  const FixedSource source = documents_of(recipe);
  data::Batch batch = source.batch(0, recipe.batch.global);
  std::fill(batch.targets.begin(), batch.targets.end(), data::ignored);
  for (const Layout& layout : layouts)
    on_ranks(layout.ranks, [&](const comm::ProcessGroup& world) {
      SCOPED_TRACE(name_of(layout));
      TrainingRun run(laid_out(recipe, layout), world);
      run.step(source);  // creates momentum
      const TensorMap before = run.weights(), states = run.states();
      const StepResult result = run.step(FixedSource(batch));
      EXPECT_TRUE(std::isnan(result.loss)) << result.loss;
      EXPECT_EQ(result.targets, 0);
      EXPECT_FALSE(result.skipped);
      expect_bitwise(before, run.weights());
      expect_bitwise(states, run.states());
    });
}

TEST(Layouts, GroupOfSizeOneChangesNothing) {
  const Recipe recipe = small_recipe();
  const FixedSource source = documents_of(recipe);
  const Trajectory alone = one_rank_trajectory(recipe, source, steps);
  on_ranks(1, [&](const comm::ProcessGroup& world) {
    TrainingRun run(recipe, world);
    expect_bitwise(alone, trajectory(run, source, steps));
  });
}

TEST(Layouts, EveryRankReportsTheSameBits) {
  const FixedSource source = documents_of(small_recipe());
  std::vector<Trajectory> ranks(4);
  on_ranks(4, [&](const comm::ProcessGroup& world) {
    TrainingRun run(small_recipe({"parallel.ep=2"}), world);
    ranks[world.rank()] = trajectory(run, source, steps);
  });
  for (size_t r = 1; r < ranks.size(); ++r) {
    SCOPED_TRACE(cat("rank ", r));
    expect_bitwise(ranks[0], ranks[r]);
  }
}

TEST(Layouts, InitialWeightsDoNotDependOnTheLayout) {
  const Recipe recipe = small_recipe();
  const comm::SelfGroup self;
  const TrainingRun alone(recipe, self);
  for (const Layout& layout : layouts)
    on_ranks(layout.ranks, [&](const comm::ProcessGroup& world) {
      SCOPED_TRACE(name_of(layout));
      expect_bitwise(alone.weights(), TrainingRun(laid_out(recipe, layout), world).weights());
    });
}

TEST(Layouts, ExpertsDiffer) {
  const comm::SelfGroup self;
  const TrainingRun run(small_recipe(), self);
  int of_experts = 0;
  for (const auto& [name, weight] : run.weights()) {
    if (name.find(".experts.") == std::string::npos) continue;
    ++of_experts;
    for (int64_t a = 0; a < weight.dim(0); ++a)
      for (int64_t b = 0; b < a; ++b)
        EXPECT_NE(weight.slice(0, a, a + 1).to_vector<double>(), weight.slice(0, b, b + 1).to_vector<double>())
            << name << ": experts " << a << " and " << b;
  }
  EXPECT_EQ(of_experts, 2 * 2) << "gate_up and down of two layers";
}

// Equality in f32 would require integer weights and gradients. The test can only claim agreement up to the rounding of
// sums.
TEST(Layouts, F32AgreesUpToRounding) {
  const Recipe recipe = small_recipe({"train.precision=f32", "optim.name=sgd"});
  const FixedSource source = documents_of(recipe);
  const Trajectory one = one_rank_trajectory(recipe, source, 1);
  const double allowed = 100 * tolerance(Dtype::f32, recipe.batch.global * recipe.model.context);
  for (const Layout& layout : layouts)
    on_ranks(layout.ranks, [&](const comm::ProcessGroup& world) {
      SCOPED_TRACE(name_of(layout));
      TrainingRun run(laid_out(recipe, layout), world);
      expect_close(one, trajectory(run, source, 1), allowed);
    });
}

}  // namespace
}  // namespace hexad::tests
