// Kernels of the meta device: the operations that they count, and the few values that they compute or forget.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <span>

#include "framework/device/meta/meta_run.h"
#include "framework/kernels/meta/meta_routing.h"
#include "framework/kernels/meta/meta_table.h"
#include "framework/tensor/host_read.h"
#include "tests/kernels/cases.h"

namespace hexad::tests {

using namespace kernels;
using namespace tensor;
namespace {

using device::DeviceKind;
using device::MetaRun;

class MetaTable : public ::testing::TestWithParam<DeviceKind> {};

TEST_P(MetaTable, HasNoHoles) { EXPECT_EQ(holes_of(meta_kernels(GetParam())), ""); }

INSTANTIATE_TEST_SUITE_P(Kernels, MetaTable, ::testing::Values(DeviceKind::cpu, DeviceKind::emulated, DeviceKind::cuda),
                         [](const auto& p) { return std::string(name_of(p.param)); });

TEST(MetaKernels, ChooseSizesLikeTheDeviceTheyRepresent) {
  EXPECT_EQ(meta_kernels(DeviceKind::cpu).cross_entropy.block_rows(100000, 1000),
            cpu_table.cross_entropy.block_rows(100000, 1000));
  EXPECT_EQ(meta_kernels(DeviceKind::cuda).cross_entropy.block_rows(100000, 32000), 4194);  // 2^27 / 32000
  EXPECT_EQ(meta_kernels(DeviceKind::cuda).rms_norm.partials(1 << 20), 264);
}

struct Meta {
  explicit Meta(MetaRun::Choose choose = {}) : run(std::make_shared<MetaRun>(DeviceKind::cpu, std::move(choose))) {}
  std::shared_ptr<MetaRun> run;
  device::DeviceContext context{{.kind = DeviceKind::meta, .meta = run}};
  const KernelTable& k = kernels::kernels(context);
  Stream& stream = context.compute();
  Tensor empty(const Shape& shape, Dtype dtype = Dtype::bf16) { return Tensor::empty(shape, dtype, context); }
};

TEST(MetaKernels, CountTheOperationsOfProducts) {
  Meta m;
  const Tensor x = m.empty({5, 3}), y = m.empty({5, 7}), w = m.empty({7, 3});
  m.k.matmul.forward(m.stream, y, x, w, Write::replace);
  EXPECT_EQ(m.run->product_flops, 2 * 5 * 3 * 7);
  m.k.matmul.input_gradient(m.stream, x, y, w, Write::add);
  m.k.matmul.weight_gradient(m.stream, w, y, x, Write::add);
  EXPECT_EQ(m.run->product_flops, 3 * 2 * 5 * 3 * 7);
  m.run->product_flops = 0;
  const Tensor experts = m.empty({4, 7, 3});
  const std::vector<int64_t> offsets{0, 1, 1, 1, 4};  // the last row belongs to no expert
  m.k.grouped_matmul.forward(m.stream, y, x, experts, GroupOffsets::on_host(offsets), Write::replace);
  EXPECT_EQ(m.run->product_flops, 2 * 4 * 3 * 7);
}

TEST(MetaKernels, CountFusedExpertsLikeTheirTwoKernels) {
  const auto run = std::make_shared<MetaRun>(DeviceKind::cpu);
  run->record_issues();
  device::DeviceContext context({.kind = DeviceKind::meta, .meta = run});
  const kernels::KernelTable& k = kernels::kernels(context);
  Stream& stream = context.compute();
  const auto empty = [&](const Shape& shape) { return Tensor::empty(shape, Dtype::bf16, context); };
  const Tensor x = empty({5, 3}), w = empty({4, 14, 3}), gate_up = empty({5, 14}), activated = empty({5, 7});
  const std::vector<int64_t> list{0, 1, 1, 1, 4};  // the last row belongs to no expert
  const GroupOffsets offsets = GroupOffsets::on_host(list);
  k.grouped_swiglu.forward(stream, gate_up, activated, x, w, offsets, {});
  EXPECT_EQ(run->product_flops, 2 * 4 * 3 * 14);
  k.grouped_matmul.forward(stream, gate_up, x, w, offsets, Write::replace);
  k.swiglu.forward(stream, activated, gate_up.slice(1, 0, 7), gate_up.slice(1, 7, 14), {});
  const auto& issues = run->issues()->issues();
  ASSERT_EQ(issues.size(), 4U);
  EXPECT_EQ(issues[0].family, "grouped_swiglu");
  const auto& product = std::get<device::ProductWork>(issues[0].work);
  EXPECT_EQ(product.groups, 2) << "two experts have rows";
  EXPECT_EQ(product.largest, 3);
  EXPECT_TRUE(issues[0].work == issues[2].work);
  EXPECT_TRUE(issues[1].work == issues[3].work);
}

TEST(MetaKernels, CountGradientsOfFusedExpertsLikeTheirTwoKernels) {
  const auto run = std::make_shared<MetaRun>(DeviceKind::cpu);
  run->record_issues();
  device::DeviceContext context({.kind = DeviceKind::meta, .meta = run});
  const kernels::KernelTable& k = kernels::kernels(context);
  Stream& stream = context.compute();
  const auto empty = [&](const Shape& shape) { return Tensor::empty(shape, Dtype::bf16, context); };
  const Tensor dout = empty({5, 3}), w = empty({4, 3, 7}), gate_up = empty({5, 14}), dgate_up = empty({5, 14}),
               product = empty({5, 7}), weights = Tensor::empty({5}, Dtype::f32, context),
               dweights = Tensor::like(weights);
  const std::vector<int64_t> list{0, 1, 1, 1, 4};  // the last row belongs to no expert
  const GroupOffsets offsets = GroupOffsets::on_host(list);
  k.grouped_swiglu.backward(stream, {dgate_up, product, dweights}, dout, w, offsets, gate_up, weights);
  EXPECT_EQ(run->product_flops, 2 * 4 * 3 * 7);
  k.grouped_swiglu.backward(stream, {dgate_up, product}, dout, w, offsets, gate_up, {});
  const Tensor dgate = dgate_up.slice(1, 0, 7), dup = dgate_up.slice(1, 7, 14), gate = gate_up.slice(1, 0, 7),
               up = gate_up.slice(1, 7, 14);
  k.grouped_matmul.input_gradient(stream, product, dout, w, offsets, Write::replace);
  k.swiglu.backward(stream, {dgate, dup, product, dweights}, product, {gate, up, weights});
  k.swiglu.backward(stream, {dgate, dup}, product, {gate, up});
  const auto& issues = run->issues()->issues();
  ASSERT_EQ(issues.size(), 7U);
  EXPECT_EQ(issues[0].family, "grouped_swiglu");
  EXPECT_TRUE(issues[0].work == issues[4].work);
  EXPECT_TRUE(issues[1].work == issues[5].work);
  EXPECT_TRUE(issues[2].work == issues[4].work);
  EXPECT_TRUE(issues[3].work == issues[6].work);
}

// The time for a byte depends on these dtypes.
TEST(MetaKernels, LogTheDtypesOfMomentsAndGradients) {
  const auto run = std::make_shared<MetaRun>(DeviceKind::cpu);
  run->record_issues();
  device::DeviceContext context({.kind = DeviceKind::meta, .meta = run});
  const KernelTable& k = kernels::kernels(context);
  const auto empty = [&](Dtype dtype) { return Tensor::empty({8}, dtype, context); };
  const Tensor main = empty(Dtype::f32), gradient = empty(Dtype::bf16);
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    const AdamwSlice slice{main, empty(dtype), empty(dtype), main, gradient, 0.1};
    k.optimizer.adamw(context.compute(), {&slice, 1}, {.lr = 1, .beta1 = 0, .beta2 = 0, .eps = 1, .step = 1}, {});
  }
  k.optimizer.squared_norm(context.compute(), Tensor::empty({1}, Dtype::f64, context), gradient, Write::replace);
  const auto& issues = run->issues()->issues();
  ASSERT_EQ(issues.size(), 3U);
  EXPECT_EQ(std::get<device::MemoryWork>(issues[0].work), (device::MemoryWork{8 * (24 + 2), Dtype::f32}));
  EXPECT_EQ(std::get<device::MemoryWork>(issues[1].work), (device::MemoryWork{8 * (16 + 2), Dtype::bf16}));
  EXPECT_EQ(std::get<device::MemoryWork>(issues[2].work), (device::MemoryWork{8 + 8 * 2, Dtype::bf16}));
}

TEST(MetaKernels, CountTheOperationsOfAttention) {
  Meta m;
  const Tensor q = m.empty({16, 2, 4}), k = m.empty({16, 1, 4}), sums = m.empty({16, 2}, Dtype::f32);
  const auto flops = [&](AttentionShape shape) {
    m.run->attention_flops = 0;
    m.k.attention.forward(m.stream, q, sums, q, k, k, {}, {}, shape);
    return m.run->attention_flops;
  };
  const double all = 4.0 * 2 * 2 * 4 * 8 * 8;  // 2 sequences, 2 heads of 4 elements, 8 x 8 pairs
  EXPECT_EQ(flops({.sequences = 2, .queries = 8, .keys = 8, .scale = 1, .causal = false}), all);
  EXPECT_EQ(flops({.sequences = 2, .queries = 8, .keys = 8, .scale = 1}), all / 2);
  EXPECT_EQ(flops({.sequences = 2, .queries = 8, .keys = 8, .scale = 1, .query_offset = 8}), all)
      << "all keys precede the queries";
  EXPECT_EQ(flops({.sequences = 2, .queries = 8, .keys = 8, .scale = 1, .query_offset = -8}), 0)
      << "all keys follow the queries";
  const double pair = all / 64;
  EXPECT_EQ(flops({.sequences = 2, .queries = 8, .keys = 8, .scale = 1, .window = 4}), 24 * pair)
      << "a window of 4 hides a triangle of 4 x 4 / 2 pairs";
  EXPECT_EQ(flops({.sequences = 2, .queries = 8, .keys = 8, .scale = 1, .window = 8}), all / 2)
      << "a window of 8 hides no pairs";
  m.run->attention_flops = 0;
  m.k.attention.backward(m.stream, {q, k, k}, q, {q, sums, q, k, k},
                         {.sequences = 2, .queries = 8, .keys = 8, .scale = 1});
  EXPECT_EQ(m.run->attention_flops, all);
}

TEST(MetaKernels, CountTheProductsOfTheDeltaRule) {
  Meta m;
  const Tensor q = m.empty({16, 2, 4}), v = m.empty({16, 6, 5}), gates = m.empty({16, 6}, Dtype::f32);
  const Tensor states = m.empty({2, 6, 4, 5}, Dtype::f32);
  const DeltaRuleOperands operands{q, q, v, gates, gates};
  m.k.delta_rule.forward(m.stream, v, states, operands, {.sequences = 2});
  EXPECT_EQ(m.run->product_flops, 3 * 2 * 16 * 6 * 4 * 5)
      << "each token counts three products with the state of each head";
  m.k.delta_rule.backward(m.stream, {q, q, v, gates, gates}, v, {}, operands, {.sequences = 2});
  EXPECT_EQ(m.run->product_flops, 9 * 2 * 16 * 6 * 4 * 5);
}

// The host can read the offsets of the experts' rows, as on other devices.
TEST(MetaKernels, GiveTheHostTheCountsOfTheRoutingModel) {
  Meta m([](std::span<int32_t> ids, const MetaRun::Choice& choice) {
    for (size_t i = 0; i < ids.size(); ++i)
      ids[i] = static_cast<int32_t>(static_cast<int64_t>(i) % choice.top_k == 0 ? 0 : choice.experts - 1);
  });
  const Tensor logits = m.empty({6, 5}, Dtype::f32), ids = m.empty({6, 2}, Dtype::i32), copy = Tensor::like(ids);
  m.k.router.forward(m.stream, Tensor::like(logits), ids, m.empty({6, 2}, Dtype::f32), logits, {}, {.top_k = 2});
  copy.copy_from(ids, m.stream);
  const Tensor valid = Tensor::from<uint8_t>(std::vector<uint8_t>{1, 1, 1, 1, 0, 0}, {6}, m.context);
  m.k.slots.mask(m.stream, copy, valid);
  const Tensor offsets = m.empty({6}, Dtype::i64);
  m.k.slots.sort(m.stream, m.empty({12}, Dtype::i64), m.empty({6, 2}, Dtype::i64), offsets, copy);
  const Tensor known = copy_to_host("counts", offsets, m.stream);
  EXPECT_EQ(known.to_vector<int64_t>(), (std::vector<int64_t>{0, 4, 4, 4, 4, 8}));
}

// Layers and micro-batches with equal routing share the result of one sort.
TEST(MetaKernels, SortEqualSlotsOnce) {
  Meta m;
  const auto sorted = [&](const std::vector<int32_t>& ids, int64_t chunks) {
    const auto tokens = static_cast<int64_t>(ids.size()) / 2;
    const Tensor slots = Tensor::from<int32_t>(ids, {tokens, 2}, m.context), keys = Tensor::like(slots);
    const Tensor rows = m.empty({tokens, 2}, Dtype::i64), of_rows = m.empty({2 * tokens}, Dtype::i64),
                 offsets = m.empty({2 + 3 * chunks}, Dtype::i64);
    m.k.slots.keys(m.stream, keys, slots, {}, 3, chunks);
    m.k.slots.sort(m.stream, of_rows, rows, offsets, keys);
    return std::vector{of_rows.to_vector<int64_t>(), rows.to_vector<int64_t>(), offsets.to_vector<int64_t>()};
  };
  const std::vector<int32_t> ids{2, 0, 1, 2, 0, 1, -1, 2};
  const auto first = sorted(ids, 1);
  EXPECT_EQ(first[0], (std::vector<int64_t>{0, 2, 1, 2, 0, 1, 3, -1}));
  EXPECT_EQ(first[1], (std::vector<int64_t>{4, 0, 2, 5, 1, 3, -1, 6}));
  EXPECT_EQ(first[2], (std::vector<int64_t>{0, 2, 4, 7, 7}));
  EXPECT_EQ(m.run->results().computed(), 2) << "only the keys and their order are computed";
  EXPECT_EQ(sorted(ids, 1), first);
  EXPECT_EQ(m.run->results().computed(), 2);
  EXPECT_NE(sorted(ids, 2)[1], first[1]) << "the tokens of the second chunk come last";
  EXPECT_NE(sorted({2, 0, 1, 2, 0, 1, 1, 2}, 1)[1], first[1]);
  EXPECT_EQ(m.run->results().computed(), 6);
}

// Each call differs from an earlier call in a single operand.
TEST(MetaKernels, SortAgainIfOneOperandDiffers) {
  Meta m;
  const auto of = [&](const std::vector<int32_t>& values) {
    return Tensor::from<int32_t>(values, {static_cast<int64_t>(values.size())}, m.context);
  };
  const Tensor slots = Tensor::from<int32_t>(std::vector<int32_t>{2, 0, 1, 2}, {2, 2}, m.context);
  const auto keys = [&](const Tensor& chunk_of, int64_t experts) {
    const Tensor out = Tensor::like(slots);
    m.k.slots.keys(m.stream, out, slots, chunk_of, experts, 2);
    return out.to_vector<int32_t>();
  };
  EXPECT_EQ(keys({}, 3), (std::vector<int32_t>{2, 0, 4, 5}));
  EXPECT_EQ(keys({}, 4), (std::vector<int32_t>{2, 0, 5, 6}));
  EXPECT_EQ(keys(of({0, 0, 1}), 3), (std::vector<int32_t>{5, 0, 1, 5}));
  EXPECT_EQ(keys(of({1, 0, 1}), 3), (std::vector<int32_t>{5, 3, 1, 5}));
  const auto tokens = [&](int64_t top_k) {
    const Tensor ids = Tensor::from<int32_t>(std::vector<int32_t>{2, 0, 1, 2}, {4 / top_k, top_k}, m.context);
    const Tensor of_rows = m.empty({4}, Dtype::i64), offsets = m.empty({4}, Dtype::i64);
    m.k.slots.sort(m.stream, of_rows, m.empty({4 / top_k, top_k}, Dtype::i64), offsets, ids);
    return of_rows.to_vector<int64_t>();
  };
  EXPECT_EQ(tokens(2), (std::vector<int64_t>{0, 1, 0, 1}));
  EXPECT_EQ(tokens(1), (std::vector<int64_t>{1, 2, 0, 3}));
  EXPECT_EQ(m.run->results().computed(), 6);
}

// Each of 12 tokens has at most 2 of 4 experts. Both halves of the tokens have equally many empty slots.
TEST(MetaKernels, LetExpertsChooseEquallyManyTokens) {
  Meta m;
  const Tensor scores = m.empty({12, 4}, Dtype::f32), ids = m.empty({12, 2}, Dtype::i32);
  const auto choose = [&](double factor) {
    m.k.expert_choice.choose(m.stream, ids, scores, {}, 12, factor);
    return ids.to_vector<int32_t>();
  };
  const auto count = [](std::span<const int32_t> chosen, int32_t expert) { return std::ranges::count(chosen, expert); };
  for (const double factor : {0.5, 1.0, 2.0}) {
    const std::vector<int32_t> chosen = choose(factor);
    const int64_t most = factor < 1 ? 3 : 6;
    for (int32_t e = 0; e < 4; ++e) EXPECT_EQ(count(chosen, e), most) << "factor " << factor << ", expert " << e;
    EXPECT_EQ(count(std::span(chosen).first(12), -1), count(std::span(chosen).last(12), -1)) << "factor " << factor;
    for (size_t t = 0; t < 12; ++t) EXPECT_TRUE(chosen[2 * t] < 0 || chosen[2 * t] != chosen[2 * t + 1]) << t;
  }
}

// Token 1 is padding, which has no row. The other tokens have rows in reverse order.
TEST(MetaKernels, LetExpertsChooseNoPadding) {
  Meta m;
  const Tensor ids = m.empty({4, 1}, Dtype::i32);
  const Tensor rows = Tensor::from<int64_t>(std::vector<int64_t>{3, -1, 1, 0}, {4}, m.context);
  m.k.expert_choice.choose(m.stream, ids, m.empty({4, 3}, Dtype::f32), rows, 4, 1);
  EXPECT_EQ(ids.to_vector<int32_t>(), (std::vector<int32_t>{2, 1, -1, 0}));
}

TEST(MetaKernels, RefuseToSortUnknownIds) {
  Meta m;
  const Tensor ids = m.empty({6, 2}, Dtype::i32), offsets = m.empty({6}, Dtype::i64);
  EXPECT_THROW(m.k.slots.sort(m.stream, m.empty({12}, Dtype::i64), m.empty({6, 2}, Dtype::i64), offsets, ids),
               std::logic_error);
}

TEST(MetaKernels, ForgetOverwrittenValues) {
  Meta m;
  const Tensor x = Tensor::from<int64_t>(std::vector<int64_t>{1, 2}, {2}, m.context);
  EXPECT_EQ(x.to_vector<int64_t>(), (std::vector<int64_t>{1, 2}));
  m.k.pointwise.fill(m.stream, x, 3);
  EXPECT_EQ(x.to_vector<int64_t>(), (std::vector<int64_t>{0, 0})) << "the values must become unknown";
}

TEST(MetaKernels, ForgetEveryResult) {
  Meta m;
  const auto known = [&](Shape shape) {
    const size_t n = shape.numel();
    return Tensor::from<float>(std::vector<float>(n, 1), shape, m.context);
  };
  const auto forgotten = [](const Tensor& t) { return t.to_vector<float>() == std::vector<float>(t.bytes() / 4, 0); };
  const Tensor x = known({4, 2}), gain = known({2}), out = known({4, 2}), sum = known({4, 2}), inverse = known({4});
  m.k.rms_norm.forward(m.stream, out, sum, inverse, x, x, gain, 1e-6);
  EXPECT_TRUE(forgotten(out) && forgotten(sum) && forgotten(inverse));
  EXPECT_FALSE(forgotten(x) || forgotten(gain)) << "operands keep their values";
  const Tensor w = known({3, 2}), y = known({4, 3}), part = known({8, 3});
  m.k.matmul.forward(m.stream, y, x, w, Write::replace);
  m.k.matmul.weight_gradient(m.stream, w, y, x, Write::add);
  EXPECT_TRUE(forgotten(y) && forgotten(w));
  m.k.matmul.forward(m.stream, part.slice(0, 2, 6), x, w, Write::replace);
  EXPECT_TRUE(forgotten(part.slice(0, 2, 6)));
  EXPECT_FALSE(forgotten(part.slice(0, 0, 2)) || forgotten(part.slice(0, 6, 8)))
      << "only the written rows are forgotten";
  const Tensor dgate = known({4, 2}), dup = known({4, 2}), dweights = known({4}), gate = known({4, 2});
  m.k.swiglu.backward(m.stream, {.dgate = dgate, .dup = dup, .dweights = dweights}, gate, {gate, gate});
  EXPECT_TRUE(forgotten(dgate) && forgotten(dup) && forgotten(dweights)) << "every output in a struct is forgotten";
  EXPECT_FALSE(forgotten(gate)) << "operands keep their values";
}

// The rest of a tensor remains unknown if only a part is known.
TEST(MetaKernels, KeepValuesGivenInParts) {
  Meta m;
  const Tensor ids = m.empty({4, 1}, Dtype::i32), rows = m.empty({4, 1}, Dtype::i64),
               offsets = m.empty({3}, Dtype::i64);
  const auto sort = [&] { m.k.slots.sort(m.stream, m.empty({4}, Dtype::i64), rows, offsets, ids); };
  const auto give = [&](int64_t begin, std::vector<int32_t> values) {
    ids.slice(0, begin, begin + 2).copy_from(Tensor::from<int32_t>(values, {2, 1}, m.context), m.stream);
  };
  give(2, {0, 1});
  EXPECT_THROW(sort(), std::logic_error);
  give(0, {1, 1});
  sort();
  EXPECT_EQ(offsets.to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 4}));
}

// Tests three kinds of expert ids: unknown ids on the meta device, ids that the recipe gives, and ids in host memory.
TEST(MetaKernels, UseTheRoutingModelInsteadOfTheRoutersChoice) {
  Meta m([](std::span<int32_t> ids, const MetaRun::Choice& choice) {
    if (choice.given) return;
    for (int32_t& id : ids) id = static_cast<int32_t>(choice.groups);
  });
  const RouterRule rule{.top_k = 2, .groups = 4};
  const Tensor given = Tensor::from<int32_t>(std::vector<int32_t>{6, 7}, {1, 2}, m.context),
               unknown = Tensor::like(given);
  const auto ids = [](const Tensor& t) { return t.to_vector<int32_t>(); };
  choose_on_meta_device(unknown, rule, 8, false);
  EXPECT_EQ(ids(unknown), (std::vector<int32_t>{4, 4}));
  choose_on_meta_device(given, rule, 8, true);
  EXPECT_EQ(ids(given), (std::vector<int32_t>{6, 7}));
  choose_on_meta_device(given, rule, 8, false);
  EXPECT_EQ(ids(given), (std::vector<int32_t>{4, 4}));
  device::DeviceContext host;
  const Tensor own = Tensor::from<int32_t>(std::vector<int32_t>{6, 7}, {1, 2}, host);
  choose_on_meta_device(own, rule, 8, false);
  EXPECT_EQ(ids(own), (std::vector<int32_t>{6, 7}));
}

TEST(MetaKernels, RefuseTensorsOfOtherDevices) {
  Meta m;
  device::DeviceContext host;
  const Tensor x = Tensor::zeros({2}, Dtype::f32, host);
  EXPECT_THROW(m.k.pointwise.fill(m.stream, x, 0), std::logic_error);
}

}  // namespace
}  // namespace hexad::tests
