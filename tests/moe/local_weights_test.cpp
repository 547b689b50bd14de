// Experts on the rank that has the tokens multiply activations by the routing weights, so no results of slots are kept.
#include "layers/moe/routes/local_weights.h"

#include <gtest/gtest.h>

#include "parallel/comm/thread_group.h"
#include "tests/ep/plan_for_ids.h"
#include "tests/moe/moe_lab.h"
#include "tests/moe/plain_pass.h"

namespace hexad::tests {

using namespace autograd;
using namespace base;
using namespace kernels;
namespace {

using moe::ExpertActivations;
using moe::ExpertGradients;
using moe::ExpertKind;
using moe::Experts;
using moe::ExpertWeights;
using moe::RowGroups;

// Experts of 5 features and width 4.
struct SmallExperts {
  Lab lab;
  comm::SelfGroup self;
  mesh::Mesh mesh{self, {}};
  StateSet states;
  Experts experts;

  explicit SmallExperts(ExpertKind kind = ExpertKind::swiglu, bool bias = false)
      : experts({.kind = kind,
                 .experts = 3,
                 .hidden = 5,
                 .expert_hidden = 4,
                 .init_std = 0.5,
                 .output_init_std = 0.5,
                 .bias = bias,
                 .gelu = {}},
                Builder(lab.parameters, states, mesh, Dtype::f64)) {
    for (const auto& p : lab.parameters) p->initialize(Lab::default_seed);
  }
  // Returns the gradients by parameter, and clears them as at the beginning of a step.
  std::vector<Tensor> taken_gradients() {
    std::vector<Tensor> out;
    for (const auto& p : lab.parameters) {
      out.push_back(copy_of(p->gradient()));
      p->clear_gradient();
    }
    return out;
  }
};

TEST(LocalWeights, WeightsBeforeTheLastProductEqualWeightsOfTheResults) {
  SmallExperts t;
  const std::vector<int64_t> offsets{0, 7, 7, 12};
  const int64_t rows = offsets.back();
  const RowGroups groups{.rows = GroupOffsets::on_host(offsets)};
  const Tensor x = t.lab.randn({rows, 5}), dout = t.lab.randn({rows, 5}), weights = t.lab.randn({rows}),
               own = Tensor::empty({rows}, Dtype::i64, t.lab.context);
  Stream& s = t.lab.stream();
  const auto& k = kernels::kernels(t.lab.context);
  k.slots.iota(s, own, 0);
  const auto weighted = [&](const Tensor& of) {
    const Tensor out = Tensor::like(of);
    k.permute.gather_weighted(s, out, of, own, weights);
    return out;
  };
  const ExpertWeights held = t.experts.hold(s, Direction::backward);

  ExpertActivations made = held.activations(s, x, groups, {});
  const Tensor results = held.output(s, made, groups), dresults = weighted(dout), dweights = Tensor::like(weights);
  k.permute.row_dots(s, dweights, dout, results);
  const ExpertGradients after = held.input_gradients(s, made, dresults, groups, {});
  t.experts.weight_gradients(s, x, made, after, dresults, groups);
  const std::vector<Tensor> expected = t.taken_gradients();

  ExpertActivations early = held.activations(s, x, groups, weights);
  const double allowed = tolerance(Dtype::f64, rows * 5);
  expect_close(weighted(results), held.output(s, early, groups), allowed);
  early.activated = {};  // not kept for backward
  const Tensor early_dweights = Tensor::like(weights);
  const ExpertGradients before = held.input_gradients(s, early, dout, groups, early_dweights);
  expect_close(dweights, early_dweights, allowed);
  expect_close(after.gate_up, before.gate_up, allowed);
  expect_close(after.rows, before.rows, allowed);
  t.experts.weight_gradients(s, x, early, before, dout, groups);
  const std::vector<Tensor> actual = t.taken_gradients();
  for (size_t i = 0; i < expected.size(); ++i) expect_close(expected[i], actual[i], allowed, Zeros::expected);
}

TEST(LocalWeights, NeedSwigluWithoutBiasesAndUnchangedRowsOnTheRank) {
  const SmallExperts plain, biased(ExpertKind::swiglu, true), gelu(ExpertKind::gelu);
  const auto weight = [&](const SmallExperts& t, const ep::ExpertGroups& groups, ep::RowOf row_of = ep::RowOf::slot,
                          WireFormat wire = WireFormat::model) {
    moe::Routes routes{.settings = pass_settings(groups, 3)};
    routes.plan.counts.row_of = row_of;
    routes.settings.schedule.wire = wire;
    return moe::experts_apply_weights(routes, t.experts);
  };
  const ep::ExpertGroups alone{&plain.self, &plain.self, &plain.self};
  EXPECT_TRUE(weight(plain, alone));
  EXPECT_FALSE(weight(biased, alone));
  EXPECT_FALSE(weight(gelu, alone));
  EXPECT_FALSE(weight(plain, alone, ep::RowOf::token));
  EXPECT_FALSE(weight(plain, alone, ep::RowOf::slot, WireFormat::fp8));
  comm::with_ranks(2, [&](const comm::ProcessGroup& two) {
    EXPECT_FALSE(weight(plain, {&two, &plain.self, &two}));
    EXPECT_FALSE(weight(plain, {&plain.self, &two, &two}));
  });
}

// Routes of four tokens with two slots each to three experts of one rank; the second slot of token 1 is dropped.
struct LocalRoutes {
  Lab lab;
  comm::SelfGroup self;
  const Tensor ids = lab.values(std::vector<int32_t>{0, 1, 1, -1, 0, 2, 2, 1}, {4, 2});
  const Tensor weights = lab.values(std::vector<double>{10, 11, 12, 13, 14, 15, 16, 17}, {4, 2});
  moe::Routes routes{.settings = pass_settings({&self, &self, &self}, 3), .end = 4};

  // Returns the weights of the computed rows without dropped slots.
  Tensor computed() {
    const Tensor all = moe::weights_of_computed(lab.stream(), routes, weights);
    return all.slice(0, 0, 7);
  }
  void plan(const ep::RoutingOptions& options) {
    routes.plan = plan_for_ids(ids, 3, routes.settings.groups, options, lab.stream());
  }
  void expect_to_return() {
    const Tensor out = Tensor::zeros({4, 2}, Dtype::f64, lab.context);
    moe::scatter_weights_to_slots(lab.stream(), out, routes, moe::weights_of_computed(lab.stream(), routes, weights));
    EXPECT_EQ(values_of(out), (std::vector<double>{10, 11, 12, 0, 14, 15, 16, 17}));
  }
};

TEST(LocalWeights, FollowTheComputedRowsAndReturnToTheirSlots) {
  const std::vector<double> by_expert{10, 14, 11, 12, 17, 15, 16}, by_chunk{10, 11, 12, 14, 17, 15, 16};
  const ep::Chunking two{ep::Chunking::By::tokens, 2};
  LocalRoutes t;
  const std::pair<ep::RoutingOptions, std::vector<double>> plans[] = {
      {{}, by_expert},
      {{.chunking = two}, by_chunk},
      {{.chunking = two, .merged = true}, by_expert},
      {{.chunking = {ep::Chunking::By::tokens, 1}, .merged = true}, by_expert},
      {{.chunking = {ep::Chunking::By::experts, 3}}, by_expert}};
  for (const auto& [options, expected] : plans) {
    t.plan(options);
    EXPECT_EQ(values_of(t.computed()), expected);
    t.expect_to_return();
  }
  t.routes.plan = ep::make_local_routing_plan(t.ids, 3, 1, t.lab.stream());
  EXPECT_EQ(values_of(t.computed()), by_expert);
  t.expect_to_return();
}

TEST(LocalWeights, AreDividedAmongTheComputationsOfChunks) {
  LocalRoutes t;
  t.plan({.chunking = {ep::Chunking::By::tokens, 2}});
  EXPECT_EQ(values_of(moe::part_of_computation(t.routes, t.computed(), 1)), (std::vector<double>{14, 17, 15, 16}));
  t.plan({.chunking = {ep::Chunking::By::tokens, 2}, .merged = true});
  EXPECT_EQ(moe::part_of_computation(t.routes, t.computed(), 0).numel(), 7);
  EXPECT_FALSE(moe::part_of_computation(t.routes, {}, 1).defined());
}

// Returns the bytes of activations in use after the forward pass of a layer.
int64_t kept_bytes(int64_t top_k, int64_t tokens) {
  MoeLab lab({cat("model.moe.top_k=", top_k)});
  const Tensor x = lab.randn({tokens, lab.config.hidden});
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  const auto out = lab.layer(tape, tape.leaf(x), {.batch = lab.batch(1, tokens), .statistics = &lab.statistics.layers});
  return lab.context.allocator()->stats().used_in(Category::activation);
}

TEST(LocalWeights, KeepInputsAndPreActivationsOfASlotForBackward) {
  constexpr int64_t tokens = 256, hidden = 16, width = 12, element = 8;
  const int64_t of_slot = (kept_bytes(3, tokens) - kept_bytes(2, tokens)) / tokens;
  EXPECT_GE(of_slot, element * (hidden + 2 * width));
  // In addition, each slot has a routing weight and the indices that routing keeps for it.
  EXPECT_LT(of_slot, element * (hidden + 2 * width + 8));
}

}  // namespace
}  // namespace hexad::tests
