// Tests of whole models: visibility between tokens, positions, norms and limits of queries and keys, and gradients for
// odd sizes.
#include "layers/transformer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "layers/moe/router/router_statistics.h"
#include "parallel/comm/self_group.h"
#include "tests/support/gradcheck.h"
#include "tests/training/training.h"

namespace hexad::tests {

using namespace autograd;
using namespace base;
using namespace layers;
using namespace train;
using namespace verify;
namespace {

using Overrides = std::vector<std::string>;
const comm::SelfGroup self;
// A changed token may change which rows the experts of a model compute together. On some devices, the bits of results
// depend on these rows. Therefore, only dense models are compared bitwise.
const Overrides dense{"model.moe.experts=0", "model.mlp_hidden=20"};

Overrides dense_with(const Overrides& more) {
  Overrides all = dense;
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

// Returns one sequence of eight tokens: documents [0, 3) and [3, 8), or one document.
data::Batch sequence(bool two_documents) {
  data::Batch b(1, 8);
  for (int32_t t = 0; t < 8; ++t) {
    const size_t i = t;
    b.ids[i] = (5 * t + 2) % 31, b.targets[i] = (3 * t + 1) % 31;
    b.first[i] = two_documents && t >= 3 ? 3 : 0;
    b.last[i] = two_documents && t < 3 ? 3 : 8;
    b.positions[i] = t - b.first[i];
  }
  return b;
}

// Returns the logits on the host, because they may outlive the model.
Tensor logits(ModelInstance& instance, const data::Batch& batch) {
  const auto policy = keep_policy();
  const MicroBatch micro =
      make_micro_batch(batch, 0, batch.count, instance.context, {}, 0, instance.model.config().attention_chunk);
  Tape tape(instance.context.compute(), *policy, Tape::Mode::forget);
  return to_host(instance.model.logits(tape, {.batch = micro}));
}

bool equal_rows(const Tensor& a, const Tensor& b, int64_t begin, int64_t end) {
  return bitwise_difference(a.slice(0, begin, end), b.slice(0, begin, end)).empty();
}

TEST(CountedDocuments, AreZeroForSequencesOfOneDocument) {
  ModelInstance instance(small_recipe({}), Registry(), self);
  const auto count = [&](bool two) { return make_micro_batch(sequence(two), 0, 1, instance.context).documents; };
  EXPECT_EQ(count(true), 2);
  EXPECT_EQ(count(false), 0);
}

class Documents : public testing::TestWithParam<Overrides> {};

TEST_P(Documents, DoNotAttendToEachOther) {
  ModelInstance instance(small_recipe(GetParam()), Registry(), self);
  data::Batch batch = sequence(true);
  const Tensor before = logits(instance, batch);
  batch.ids[1] = 30;
  const Tensor first_changed = logits(instance, batch);
  EXPECT_TRUE(equal_rows(before, first_changed, 3, 8));
  EXPECT_FALSE(equal_rows(before, first_changed, 1, 2));
  batch.ids[1] = sequence(true).ids[1], batch.ids[4] = 30;
  EXPECT_TRUE(equal_rows(before, logits(instance, batch), 0, 3));
}

TEST_P(Documents, GiveTheSameLogitsAsInSeparateSequences) {
  ModelInstance instance(small_recipe(GetParam()), Registry(), self);
  const Tensor both = logits(instance, sequence(true));
  data::Batch alone(1, 5);
  for (size_t i = 0; i < 5; ++i) {
    alone.ids[i] = sequence(true).ids[i + 3], alone.positions[i] = static_cast<int32_t>(i);
    alone.last[i] = 5;
  }
  expect_close(logits(instance, alone), both.slice(0, 3, 8), tolerance(Dtype::f64, 1000));
}
INSTANTIATE_TEST_SUITE_P(Models, Documents,
                         testing::Values(dense, dense_with({"model.kind=encoder"}),
                                         dense_with({"model.position=learned", "model.qk_norm=true"})));

TEST(Decoder, SeesNoFutureTokens) {
  ModelInstance instance(small_recipe(dense), Registry(), self);
  data::Batch batch = sequence(false);
  const Tensor before = logits(instance, batch);
  for (int64_t t = 0; t < 8; ++t) {
    batch.ids[t] = 30;
    const Tensor after = logits(instance, batch);
    EXPECT_TRUE(equal_rows(before, after, 0, t)) << "token " << t;
    for (int64_t u = t; u < 8; ++u) EXPECT_FALSE(equal_rows(before, after, u, u + 1)) << "token " << t << " at " << u;
    batch.ids[t] = sequence(false).ids[t];
  }
}

TEST(Encoder, SeesAllTokens) {
  ModelInstance instance(small_recipe(dense_with({"model.kind=encoder"})), Registry(), self);
  data::Batch batch = sequence(false);
  const Tensor before = logits(instance, batch);
  batch.ids[7] = 30;
  const Tensor after = logits(instance, batch);
  for (int64_t t = 0; t < 8; ++t) EXPECT_FALSE(equal_rows(before, after, t, t + 1)) << "token " << t;
}

TEST(Positions, RotaryPositionsAreRelative) {
  for (const char* share : {"1", "0.5"}) {
    ModelInstance instance(small_recipe(dense_with({"model.context=16", std::string("model.rotary_share=") + share})),
                           Registry(), self);
    data::Batch batch = sequence(false);
    const Tensor before = logits(instance, batch);
    for (int32_t& p : batch.positions) p += 5;
    expect_close(before, logits(instance, batch), tolerance(Dtype::f64, 1000));
    batch.positions[3] += 2;
    EXPECT_FALSE(difference(before, logits(instance, batch), 1e-3).empty()) << "rotary_share " << share;
  }
}

TEST(Positions, LearnedPositionsAreAbsolute) {
  ModelInstance instance(small_recipe(dense_with({"model.context=16", "model.position=learned"})), Registry(), self);
  data::Batch batch = sequence(false);
  const Tensor before = logits(instance, batch);
  for (int32_t& p : batch.positions) p += 5;
  EXPECT_FALSE(difference(before, logits(instance, batch), 1e-3).empty());
}

void multiply(Parameter& p, double factor, device::DeviceContext& context) {
  kernels::kernels(context).pointwise.scale(context.compute(), p.local(), factor);
}

TEST(QkNorm, RemovesTheScaleOfQueriesAndKeys) {
  for (const char* norm : {"none", "head", "all_heads"}) {
    ModelInstance instance(small_recipe(dense_with({std::string("model.qk_norm=") + norm, "model.norm_eps=1e-14"})),
                           Registry(), self);
    const Tensor before = logits(instance, sequence(false));
    multiply(instance.parameters.find("layers.0.attention.q.weight"), 3, instance.context);
    multiply(instance.parameters.find("layers.1.attention.k.weight"), 5, instance.context);
    const bool same = difference(before, logits(instance, sequence(false)), 1e-10).empty();
    EXPECT_EQ(same, std::string(norm) != "none");
  }
}

// A norm of each head removes the scale of a single head. A norm over all heads removes only a scale that all heads
// share.
TEST(QkNorm, NormOverAllHeadsKeepsTheirRelativeScale) {
  for (const char* norm : {"head", "all_heads"}) {
    ModelInstance instance(small_recipe(dense_with({std::string("model.qk_norm=") + norm, "model.norm_eps=1e-14"})),
                           Registry(), self);
    const Tensor before = logits(instance, sequence(false));
    Parameter& q = instance.parameters.find("layers.0.attention.q.weight");
    const int64_t head = q.shape()[0] / 4;
    kernels::kernels(instance.context)
        .pointwise.scale(instance.context.compute(), q.local().slice(0, head, 2 * head), 3);
    const bool same = difference(before, logits(instance, sequence(false)), 1e-10).empty();
    EXPECT_EQ(same, std::string(norm) == "head");
  }
}

TEST(QkNorm, NormOverAllHeadsHasAGainForEachElement) {
  const ModelInstance instance(small_recipe(dense_with({"model.qk_norm=all_heads"})), Registry(), self);
  EXPECT_EQ(instance.parameters.find("layers.0.attention.q_norm.weight").shape(), (Shape{16}));
  EXPECT_EQ(instance.parameters.find("layers.0.attention.k_norm.weight").shape(), (Shape{8}));
}

// Gains far beyond the limit of clipping leave only signs, so a greater gain changes nothing.
TEST(QkvClip, IsAppliedAfterNormsOverAllHeads) {
  const auto with_gain = [](double scale) {
    ModelInstance instance(small_recipe(dense_with({"model.qk_norm=all_heads", "model.qkv_clip=0.01"})), Registry(),
                           self);
    for (const char* name : {"q_norm", "k_norm"})
      multiply(instance.parameters.find(cat("layers.0.attention.", name, ".weight")), scale, instance.context);
    return logits(instance, sequence(false));
  };
  expect_bitwise(with_gain(1e9), with_gain(1e10));
}

TEST(QkvClip, BoundsQueriesKeysAndValues) {
  const auto with_clip = [](const char* clip, double scale) {
    ModelInstance instance(small_recipe(dense_with({std::string("model.qkv_clip=") + clip})), Registry(), self);
    for (const char* name : {"q", "k", "v"})
      multiply(instance.parameters.find(cat("layers.0.attention.", name, ".weight")), scale, instance.context);
    return logits(instance, sequence(false));
  };
  // Far beyond the limit, only signs remain, so a greater factor changes nothing. Within the limit, clipping has no
  // effect.
  const Tensor far = with_clip("0.01", 1e9), further = with_clip("0.01", 1e10);
  expect_bitwise(far, further);
  ModelInstance plain(small_recipe(dense), Registry(), self);
  const Tensor unbounded = logits(plain, sequence(false));
  expect_bitwise(unbounded, with_clip("1e9", 1));
  EXPECT_FALSE(difference(unbounded, with_clip("1", 1), 1e-6).empty());
}

TEST(TiedEmbedding, IsOneParameter) {
  const ModelInstance instance(small_recipe({"model.tied_embedding=true"}), Registry(), self);
  const ModelInstance untied(small_recipe(), Registry(), self);
  for (const auto& p : instance.parameters) EXPECT_NE(p->name(), "head.weight");
  EXPECT_EQ(instance.parameters.size() + 1, untied.parameters.size());
}

// Models whose sizes are not multiples of a tile or a vector, for tests of the whole loss.
struct Odd {
  std::string name;
  Overrides overrides;
};
void PrintTo(const Odd& o, std::ostream* out) { *out << o.name; }
class OddSizes : public testing::TestWithParam<Odd> {};

TEST_P(OddSizes, GradientsMatchFiniteDifferences) {
  Overrides overrides{"model.moe.routing=balanced", "model.layers=1", "model.vocab=7", "model.moe.z_loss=0.1"};
  overrides.insert(overrides.end(), GetParam().overrides.begin(), GetParam().overrides.end());
  const Recipe recipe = small_recipe(overrides);
  Lab lab;
  const mesh::Mesh mesh(self, {.dp = 1});
  StateSet states;
  const Transformer model(recipe.model, Registry(), {}, Builder(lab.parameters, states, mesh, Dtype::f64));
  for (const auto& p : lab.parameters) p->initialize(3);
  data::Batch tokens = documents(2, 5, recipe.model.vocab, 11).batch(0, 2);
  // A prediction block predicts tokens after the next token, for which these documents are too short. Therefore, each
  // sequence becomes one document.
  if (recipe.model.prediction_blocks > 0) {
    for (size_t t = 0; t < tokens.targets.size(); ++t) tokens.targets[t] = static_cast<int32_t>((3 * t + 1) % 7);
    std::ranges::fill(tokens.first, 0), std::ranges::fill(tokens.last, 5);
    for (size_t t = 0; t < tokens.positions.size(); ++t) tokens.positions[t] = static_cast<int32_t>(t % 5);
  }
  const MicroBatch batch =
      make_micro_batch(tokens, 0, 2, lab.context, {}, recipe.model.prediction_blocks, recipe.model.attention_chunk);
  ModelStatistics statistics(1 + recipe.model.prediction_blocks, std::max<int64_t>(1, recipe.model.moe.experts),
                             lab.context);
  gradcheck(lab, {},
            [&](Tape& t, const std::vector<Value>&) {
              CrossEntropyOptions options;
              options.gradient_scale = 0.5, options.block_rows = 3;
              auto losses = model.loss(t, {.batch = batch, .statistics = &statistics.layers}, {.loss = options});
              std::vector<Value> all{losses.value};
              all.insert(all.end(), losses.aux_losses.begin(), losses.aux_losses.end());
              if (losses.prediction_loss.data.defined()) all.push_back(losses.prediction_loss);
              return all;
            },
            {.root_gradient = 0.5, .zeros = Zeros::expected, .of_layers = true});
}

INSTANTIATE_TEST_SUITE_P(
    , OddSizes,
    testing::Values(
        Odd{"HiddenOne",
            {"model.hidden=1", "model.heads=1", "model.kv_heads=1", "model.head_size=2", "model.moe.expert_hidden=1",
             "model.norm_eps=0.1"}},
        Odd{"HiddenSeven",
            {"model.hidden=7", "model.heads=3", "model.kv_heads=1", "model.head_size=2", "model.moe.experts=3",
             "model.moe.expert_hidden=5", "model.init_std=0.5"}},
        Odd{"HiddenSixtyFive",
            {"model.hidden=65", "model.heads=5", "model.kv_heads=5", "model.vocab=31", "model.position=learned",
             "model.moe.experts=5", "model.moe.top_k=3", "model.moe.expert_hidden=7", "model.init_std=0.1",
             "model.norm_eps=1"}},
        Odd{"HeadBiasAndSparseMixer",
            {"model.hidden=7", "model.heads=3", "model.kv_heads=1", "model.head_size=2", "model.moe.experts=5",
             "model.moe.expert_hidden=5", "model.init_std=0.5", "model.head_bias=true", "model.moe.router=sparse_mixer",
             "model.moe.mixer_jitter=2"}},
        // All experts choose all tokens, so that no finite difference changes the choice.
        Odd{"ExpertsChooseTokens",
            {"model.hidden=7", "model.heads=3", "model.kv_heads=1", "model.head_size=2", "model.moe.experts=3",
             "model.moe.top_k=3", "model.moe.expert_hidden=5", "model.init_std=0.5", "model.kind=encoder",
             "model.moe.router=expert_choice", "model.moe.routing=model", "model.moe.capacity_factor=1",
             "model.moe.aux_loss.coefficient=0"}},
        Odd{"Llama4",
            {"model.hidden=7",
             "model.heads=3",
             "model.kv_heads=1",
             "model.head_size=2",
             "model.moe.experts=5",
             "model.moe.expert_hidden=5",
             "model.init_std=0.5",
             "model.layers=2",
             "model.moe.every=2",
             "model.mlp_hidden=5",
             "model.no_rotary_every=2",
             "model.temperature.scale=0.5",
             "model.temperature.floor=2",
             "model.qk_norm=unit",
             "model.norm_eps=0.1",
             "model.attention_chunk=2",
             "model.full_attention_every=2",
             "model.moe.top_k=1",
             "model.moe.weigh=input",
             "model.moe.score=sigmoid",
             "model.moe.normalize=false"}},
        Odd{"OneExpert", {"model.moe.experts=1", "model.moe.top_k=1"}},
        Odd{"SettingsOfSeveralModelFamilies",
            {"model.hidden=7", "model.heads=2", "model.kv_heads=1", "model.head_size=5", "model.qk_norm=all_heads",
             "model.qkv_bias=true", "model.o_bias=true", "model.rotary_share=0.4", "model.rotary_scaling.kind=ntk",
             "model.rotary_scaling.factor=2", "model.moe.shared_experts=1", "model.moe.shared_gate=true",
             "model.moe.normalize_floor=0.9", "model.moe.expert_hidden=5", "model.init_std=0.5"}},
        Odd{"LatentAttention",
            {"model.hidden=7", "model.heads=3", "model.init_std=0.5", "model.moe.expert_hidden=5",
             "model.attention=latent", "model.kv_heads=auto", "model.head_size=auto", "model.latent.q_rank=6",
             "model.latent.kv_rank=5", "model.latent.nope_size=3", "model.latent.rope_size=2",
             "model.latent.value_size=4"}},
        // Each prediction loss has the weight 1 in the gradient, as the check expects, if prediction_weight equals
        // prediction_blocks.
        Odd{"PredictionBlocks",
            {"model.hidden=7", "model.heads=3", "model.kv_heads=1", "model.head_size=2", "model.moe.experts=3",
             "model.moe.expert_hidden=5", "model.init_std=0.5", "model.prediction_blocks=2",
             "model.prediction_weight=2"}},
        Odd{"PredictionBlockOfATiedEmbedding",
            {"model.hidden=7", "model.heads=1", "model.kv_heads=1", "model.head_size=4", "model.moe.experts=0",
             "model.mlp_hidden=5", "model.init_std=0.5", "model.tied_embedding=true", "model.norm=layer_norm",
             "model.bias=true", "model.prediction_blocks=1", "model.prediction_weight=1"}},
        Odd{"EncoderWithBiases",
            {"model.kind=encoder", "model.bias=true", "model.norm=layer_norm", "model.hidden=7", "model.heads=1",
             "model.kv_heads=1", "model.head_size=3", "model.position=learned", "model.mlp=gelu", "model.moe.experts=0",
             "model.mlp_hidden=5", "model.tied_embedding=true", "model.init_std=0.5"}}),
    [](const auto& i) { return i.param.name; });

TEST(Context, MayHaveOneToken) {
  const Recipe recipe = small_recipe({"model.context=1", "model.vocab=2", "batch.micro=1"});
  data::Batch batch(8, 1);
  for (size_t i = 0; i < 8; ++i) batch.ids[i] = static_cast<int32_t>(i % 2), batch.targets[i] = 1, batch.last[i] = 1;
  TrainingRun run(recipe, self);
  const FixedSource source(batch);
  const double first = run.step(source).loss;
  for (int s = 0; s < 5; ++s) run.step(source);
  EXPECT_LT(run.step(source).loss, first);
}

}  // namespace
}  // namespace hexad::tests
