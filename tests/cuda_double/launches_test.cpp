// Launch counts of layers, from the CUDA test double. On a card, each launch takes microseconds, even for little work.
#include "tests/support/cuda_double/launches.h"

#include <gtest/gtest.h>

#include <tuple>

#include "framework/kernels/kernel_table.h"
#include "layers/dense/attention.h"
#include "layers/moe/moe_layer.h"
#include "parallel/comm/self_group.h"
#include "tests/support/on_device.h"
#include "tests/training/training.h"

namespace hexad::tests {
namespace {

using autograd::ParameterSet;
using autograd::Replay;
using autograd::Tape;
using autograd::Value;
using base::Dtype;
using base::Shape;
using cuda_double::LaunchCounts;
using cuda_double::take_launches;
using layers::Builder;
using layers::ForwardContext;
using layers::MicroBatch;
using layers::ModelConfig;
using tensor::Tensor;

constexpr int64_t sequences = 2, length = 8;

// Context, parameters and batch of a layer. The context does not fill new memory, because each fill would count as a
// launch.
struct Launches {
  explicit Launches(const std::vector<std::string>& overrides, Dtype layer_dtype = Dtype::f32)
      : dtype(layer_dtype), config(small_recipe(overrides).model) {
    batch.sequences = sequences, batch.length = length;
    std::vector<int32_t> positions;
    for (int64_t i = 0; i < batch.tokens(); ++i) positions.push_back(static_cast<int32_t>(i % length));
    batch.positions = Tensor::from<int32_t>(positions, {batch.tokens()}, context);
  }
  Builder builder() { return {parameters, states, mesh, dtype}; }
  void initialize() {
    for (const auto& p : parameters) p->initialize(3);
  }
  Tensor counting(const Shape& shape, Dtype of) {
    std::vector<float> values;
    for (int64_t i = 0; i < shape.numel(); ++i) values.push_back(static_cast<float>(i * 37 % 19) / 9 - 1);
    const Tensor t = Tensor::empty(shape, of, context);
    kernels::kernels(context).pointwise.copy(context.compute(), t, Tensor::from<float>(values, shape, context));
    return t;
  }

  // Launches of one forward and one backward.
  struct Counts {
    LaunchCounts forward, backward;
  };
  // Runs `layer` forward and backward. `layer` maps a tape and x[tokens, hidden] to its results.
  template <class F>
  Counts count(const F& layer) {
    initialize();
    const auto policy = autograd::keep_policy();
    Tape tape(context.compute(), *policy);
    const Value x = tape.leaf(counting({batch.tokens(), config.hidden}, dtype));
    take_launches();
    const std::vector<Value> results = layer(tape, x);
    Counts counts{.forward = take_launches(), .backward = {}};
    std::vector<Replay::Root> roots;
    for (const Value& y : results) roots.push_back({y, counting(y.shape(), y.data.dtype())});
    take_launches();
    Replay(tape, roots).run();
    counts.backward = take_launches();
    return counts;
  }

  device::DeviceContext context{on_test_device()};
  Dtype dtype;
  ModelConfig config;
  comm::SelfGroup self;
  mesh::Mesh mesh{self, {.dp = 1}};
  layers::StateSet states;
  ParameterSet parameters{context};
  MicroBatch batch;
};

// Returns the counts without the launches of products, whose number depends on sizes and dtypes.
LaunchCounts without_products(LaunchCounts counts) {
  std::erase_if(counts, [](const auto& of_name) {
    return of_name.first == "cublasLtMatmul" || of_name.first.starts_with("grouped matmul");
  });
  return counts;
}

// Counts the launches of an MoE layer, without its products. `duels` decide whether the experts are fused if
// schedule.fused is unset.
Launches::Counts count_moe_layer(const std::vector<std::string>& overrides, const moe::MoeSchedule& schedule = {},
                                 moe::FusedDuels* duels = nullptr, Dtype dtype = Dtype::f32) {
  Launches l(overrides, dtype);
  moe::MoeLayer layer({l.config, 0, 0, layers::Registry().router_of(l.config), schedule, moe::alternating_order()},
                      l.builder() / "moe");
  layer.fuse_by(duels);
  layers::ModelStatistics statistics(1, l.config.moe.experts, l.context);
  auto [forward, backward] = l.count([&](Tape& t, const Value& x) {
    const auto out = layer(t, x, {.batch = l.batch, .statistics = &statistics.layers});
    return std::vector<Value>{out.y, out.aux_losses};
  });
  return {without_products(std::move(forward)), without_products(std::move(backward))};
}

TEST(Launches, HaveTheKnownCountsInAnMoeLayer) {
  const auto [forward, backward] = count_moe_layer({"model.moe.z_loss=0.001"});
  EXPECT_EQ(forward, (LaunchCounts{{"router", 1},
                                   {"cudaMemsetAsync", 1},  // zeroes the counts
                                   {"router_count", 1},
                                   {"router_fractions", 1},
                                   {"router_balance", 2},
                                   {"router_z", 2},
                                   {"add", 1},  // adds up the losses
                                   {"slots_sort", 4},
                                   {"scatter", 1},  // scatters the weights to the rows
                                   {"gather", 1},
                                   {"swiglu", 1},
                                   {"combine", 1}}));
  EXPECT_EQ(backward, (LaunchCounts{{"router_z", 1},
                                    {"router_balance", 1},
                                    {"cudaMemsetAsync", 1},  // zeroes the weights' gradients, for dropped slots
                                    {"gather", 2},           // gathers the rows' gradients, and the weights' gradients
                                    {"swiglu", 1},
                                    {"combine", 1},
                                    {"router", 1},
                                    {"add", 1}}));  // adds up the logits' gradients
}

TEST(Launches, ExpertsWithGeluScatterNoWeights) {
  const auto [forward, backward] = count_moe_layer({"model.moe.z_loss=0.001", "model.moe.expert=gelu"});
  EXPECT_FALSE(forward.contains("scatter"));
  EXPECT_EQ(backward, (LaunchCounts{{"router_z", 1},
                                    {"router_balance", 1},
                                    {"combine", 3},  // two for the slots' gradients, one for the gradient of x
                                    {"gelu", 1},
                                    {"router", 1},
                                    {"add", 1}}));  // adds up the logits' gradients
}

// The experts are divided into chunks. Therefore, the host makes the routing plan, as on several ranks.
TEST(Launches, SlotRowsAreNotMarkedIfTheirTokensAreKnown) {
  moe::MoeSchedule schedule;
  schedule.chunk_by = moe::ChunkBy::experts, schedule.chunks = 2;
  const LaunchCounts backward = count_moe_layer({"model.moe.expert=gelu"}, schedule).backward;
  EXPECT_EQ(backward.at("combine"), 3);  // two for the slots' gradients, one for the gradient of x
  EXPECT_FALSE(backward.contains("cudaMemsetAsync")) << "zeroes a byte for each slot row";
}

TEST(Launches, FusedExpertsHaveNoSeparateActivation) {
  using Winner = kernels::Duel::Winner;
  const auto count_of = [](std::optional<moe::Fused> fused, std::optional<Winner> winner) {
    moe::MoeSchedule s;
    s.fused = fused;
    moe::FusedDuels duels;
    if (winner) duels.forward.decide(*winner), duels.backward.decide(*winner);
    return count_moe_layer({"model.moe.expert_hidden=128"}, s, winner ? &duels : nullptr, Dtype::bf16);
  };
  for (const Launches::Counts& fused : {count_of(moe::Fused::on, {}), count_of({}, Winner::candidate)}) {
    for (const LaunchCounts& direction : {fused.forward, fused.backward}) {
      EXPECT_FALSE(direction.contains("swiglu"));
      EXPECT_EQ(direction.at("grouped swiglu"), 1);
    }
    EXPECT_EQ(fused.backward.at("grouped swiglu: weights"), 1);
  }
  for (const Launches::Counts& plain : {count_of(moe::Fused::off, {}), count_of(moe::Fused::off, Winner::candidate),
                                        count_of({}, Winner::plain), count_of({}, {})})
    for (const LaunchCounts& direction : {plain.forward, plain.backward}) {
      EXPECT_EQ(direction.at("swiglu"), 1);
      EXPECT_FALSE(direction.contains("grouped swiglu"));
    }
}

TEST(Launches, EachDirectionOfFusedExpertsFollowsItsOwnDuel) {
  using Winner = kernels::Duel::Winner;
  moe::MoeSchedule s;
  s.fused.reset();
  for (const Winner forward : {Winner::plain, Winner::candidate}) {
    moe::FusedDuels duels;
    duels.forward.decide(forward);
    duels.backward.decide(forward == Winner::plain ? Winner::candidate : Winner::plain);
    const Launches::Counts counts = count_moe_layer({"model.moe.expert_hidden=128"}, s, &duels, Dtype::bf16);
    const auto& [fused, plain] = forward == Winner::candidate ? std::tie(counts.forward, counts.backward)
                                                              : std::tie(counts.backward, counts.forward);
    EXPECT_TRUE(fused.contains("grouped swiglu") && !fused.contains("swiglu"));
    EXPECT_TRUE(plain.contains("swiglu") && !plain.contains("grouped swiglu"));
  }
}

TEST(Launches, QueriesAndKeysAreRotatedInOneLaunch) {
  Launches l({});
  const layers::RotaryTable table(l.config.context, layers::RotaryFrequencies::of(l.config), Dtype::f32, l.context);
  const layers::Attention layer(l.config, &table, 0, l.builder() / "attention");
  const auto [forward, backward] =
      l.count([&](Tape& t, const Value& x) { return std::vector<Value>{layer(t, x, {.batch = l.batch})}; });
  EXPECT_EQ(forward.at("rotary"), 1);
  EXPECT_EQ(backward.at("rotary"), 1);
}

}  // namespace
}  // namespace hexad::tests
