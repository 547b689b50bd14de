// Compares a block with its formula, in which every sum is a separate op.
#include "layers/block.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "layers/dense/attention.h"
#include "layers/moe/router/router_statistics.h"
#include "parallel/comm/self_group.h"
#include "tests/support/lab.h"
#include "tests/training/training.h"

namespace hexad::tests {

using namespace autograd;
using namespace layers;
using namespace verify;
namespace {

const comm::SelfGroup self;
const moe::MoeSchedule schedule;

const Registry& registry() {
  static const Registry all;
  return all;
}

using Layer = std::function<Value(Tape&, const Value&, const ForwardContext&)>;

// Layers of the block. Their parameters have the same names as in the block, and therefore the same initial values.
struct Parts {
  Norm attention_norm;
  std::optional<Norm> mlp_norm, moe_norm;
  Attention attention;
  std::unique_ptr<FeedForward> mlp;
  std::unique_ptr<moe::MoeLayer> moe;

  Parts(const ModelConfig& c, const Builder& b)
      : attention_norm({c.hidden, c.norm, c.norm_eps, c.bias}, b / "attention_norm"),
        attention(c, nullptr, 0, b / "attention") {
    const FeedForwardDeclaration& declared = registry().feed_forward_of(c);
    if (c.is_moe(0))
      moe = std::make_unique<moe::MoeLayer>(
          moe::MoeLayer::Spec{c, 0, 0, registry().router_of(c), schedule, registry().moe_order_of(schedule)},
          b / "moe");
    if (!moe || c.moe.dense_residual) mlp = declared.make(FeedForwardSpec{c, 0, c.dense_hidden(), declared}, b / "mlp");
    const bool before = moe && c.moe.input == moe::ExpertInput::before_attention;
    if (before) moe_norm.emplace(Norm::Config{c.hidden, c.norm, c.norm_eps, c.bias}, b / "moe_norm");
    if (mlp || !before) mlp_norm.emplace(Norm::Config{c.hidden, c.norm, c.norm_eps, c.bias}, b / "mlp_norm");
  }

  Value operator()(Tape& t, const Value& x, const ForwardContext& context) const {
    const Value residual = add(t, x, attention(t, attention_norm(t, x), context)),
                normed = mlp_norm ? (*mlp_norm)(t, residual) : Value{};
    Value y = residual;
    if (moe) y = add(t, y, (*moe)(t, moe_norm ? (*moe_norm)(t, x) : normed, context).y);
    return mlp ? add(t, y, (*mlp)(t, normed, context)) : y;
  }
};

// Returns the output and all gradients of the layer that `make` returns.
TensorMap results_of(const ModelConfig& c, bool recompute_norms, const std::function<Layer(const Builder&)>& make) {
  Lab lab;
  const mesh::Mesh mesh(self, {.dp = 1});
  StateSet states;
  const Layer layer = make(Builder(lab.parameters, states, mesh, Dtype::f64) / "block");
  for (const auto& p : lab.parameters) p->initialize(3);
  const Tensor x = lab.randn({15, c.hidden}), dy = lab.randn(x.shape());
  MicroBatch batch;
  batch.sequences = 3, batch.length = 5;
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy, Tape::Mode::record, recompute_norms);
  // A layer computes its auxiliary losses in every pass if it gets statistics, as in training.
  ModelStatistics statistics(1, c.moe.experts, lab.context);
  const Value in = tape.leaf(x), y = layer(tape, in, {.batch = batch, .statistics = &statistics.layers});
  const std::vector<Replay::Root> roots{{y, dy}};
  Replay replay(tape, roots);
  replay.run();
  TensorMap results{{"y", to_host(copy_of(y.data))}, {"dx", to_host(copy_of(replay.take_gradient(in)))}};
  for (const auto& p : lab.parameters) results[p->name()] = to_host(copy_of(p->gradient()));
  return results;
}

struct Case {
  std::string name;
  std::vector<std::string> overrides;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
class BlockSums : public testing::TestWithParam<Case> {};

TEST_P(BlockSums, EqualTheFormula) {
  std::vector<std::string> overrides{"model.position=learned", "model.moe.routing=balanced"};
  overrides.insert(overrides.end(), GetParam().overrides.begin(), GetParam().overrides.end());
  const ModelConfig c = small_recipe(overrides).model;
  const TensorMap expected = results_of(c, false, [&](const Builder& b) -> Layer {
    return [parts = std::make_shared<Parts>(c, b)](Tape& t, const Value& x, const ForwardContext& context) {
      return (*parts)(t, x, context);
    };
  });
  for (const Recompute recompute : {Recompute::none, Recompute::norms, Recompute::attention, Recompute::block}) {
    SCOPED_TRACE(testing::Message() << "recompute " << static_cast<int>(recompute));
    const auto make = [&](const Builder& b) -> Layer {
      const auto block = std::make_shared<Block>(Block::Spec{c, nullptr, 0, registry(), schedule}, b);
      return [block, recompute](Tape& t, const Value& x, const ForwardContext& context) {
        return (*block)(t, x, context, recompute).x;
      };
    };
    expect_close(expected, results_of(c, recompute == Recompute::norms, make), base::tolerance(Dtype::f64, 1000));
  }
}

const std::vector<std::string> everything{"model.moe.shared_experts=1", "model.moe.dense_residual=true",
                                          "model.mlp_hidden=20"};
// Overrides for the block of Snowflake Arctic.
const std::vector<std::string> arctic{"model.moe.input=before_attention", "model.moe.dense_residual=true",
                                      "model.mlp_hidden=20"};
INSTANTIATE_TEST_SUITE_P(, BlockSums,
                         testing::Values(Case{"Experts", {}}, Case{"ExpertsSharedExpertsAndAnMlp", everything},
                                         Case{"ExpertsBeforeAttention", {"model.moe.input=before_attention"}},
                                         Case{"ExpertsBeforeAttentionAndAnMlp", arctic},
                                         Case{"Mlp", {"model.moe.experts=0", "model.mlp_hidden=20"}},
                                         Case{
                                             "OddSizes",
                                             {"model.hidden=7", "model.heads=3", "model.kv_heads=1",
                                              "model.head_size=2", "model.moe.experts=3", "model.moe.expert_hidden=5"}},
                                         Case{"LayerNorms", {"model.norm=layer_norm"}}),
                         [](const auto& i) { return i.param.name; });

// Buckets contain parameters in the order of their declaration. ZeRO-3 would gather the experts before attention if a
// norm were in the bucket of the experts or in a later bucket.
TEST(BlockParameters, NormsAreDeclaredFirst) {
  for (const auto& overrides : {std::vector<std::string>{}, everything, arctic}) {
    const ModelConfig c = small_recipe(overrides).model;
    Lab lab;
    const mesh::Mesh mesh(self, {.dp = 1});
    StateSet states;
    const Block block({c, nullptr, 0, registry(), schedule},
                      Builder(lab.parameters, states, mesh, Dtype::f64) / "block");
    std::vector<std::string> names, norms_first;
    for (const auto& p : lab.parameters) names.push_back(p->name());
    norms_first = names;
    std::ranges::stable_partition(norms_first,
                                  [](const std::string& name) { return name.find("_norm.") != name.npos; });
    EXPECT_EQ(names, norms_first);
    EXPECT_TRUE(names.front().find("_norm.") != std::string::npos) << names.front();
  }
}

// Addends are rows of a rank's tokens. Each chunk sums its own rows.
TEST(BlockOfTensorRanks, EqualsTheRunOfOneRankUnderMemoryReuse) {
  std::vector<std::string> overrides = everything;
  overrides.push_back("model.layers=1");
  const Recipe alone = small_recipe(overrides);
  for (const char* setting : {"parallel.tp=2", "parallel.sp=true", "parallel.ep=2", "parallel.etp=1",
                              "schedule.moe.memory_reuse=s4", "schedule.moe.chunk_by=tokens", "schedule.moe.chunks=2"})
    overrides.emplace_back(setting);
  const Recipe divided = small_recipe(overrides);
  const FixedSource source = documents_of(alone);
  const Trajectory expected = one_rank_trajectory(alone, source, 2);
  on_ranks(2, [&](const comm::ProcessGroup& world) {
    TrainingRun run(divided, world);
    expect_close(expected, trajectory(run, source, 2), base::step_tolerance(Dtype::f64, 64, 2));
  });
}

}  // namespace
}  // namespace hexad::tests
