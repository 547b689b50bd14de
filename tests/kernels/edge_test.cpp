// Inputs at the edge, by name, for the CPU table and for the reference alike.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "framework/kernels/kernel_table.h"

namespace hexad::tests {
namespace {

using namespace kernels;

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float inf = std::numeric_limits<float>::infinity();

class Edge : public ::testing::TestWithParam<const KernelTable*> {
 protected:
  const KernelTable& k = *GetParam();
  device::DeviceContext context;
  Device device{context};
  device::InlineStream stream;

  template <class T>
  Tensor tensor(std::vector<T> values, Shape shape) {
    return Tensor::from<T>(values, shape, device);
  }
  Tensor empty(Shape shape, Dtype dtype = Dtype::f32) { return Tensor::empty(shape, dtype, device); }
  Tensor filled(Shape shape, float value) {
    return tensor(std::vector<float>(static_cast<size_t>(shape.numel()), value), shape);
  }

  struct Routed {
    std::vector<int32_t> ids;
    std::vector<float> weights, scores;
  };
  Routed route(const std::vector<float>& logits, const RouterRule& rule, const std::vector<float>& bias = {}) {
    const auto experts = static_cast<int64_t>(logits.size());
    const Tensor scores = empty({1, experts}), ids = empty({1, rule.top_k}, Dtype::i32),
                 weights = empty({1, rule.top_k});
    k.router.forward(stream, scores, ids, weights, tensor(logits, {1, experts}),
                     bias.empty() ? Tensor() : tensor(bias, {experts}), rule);
    return {ids.to_vector<int32_t>(), weights.to_vector<float>(), scores.to_vector<float>()};
  }
};

using Ids = std::vector<int32_t>;
using Floats = std::vector<float>;

TEST_P(Edge, RouterTiesGoToTheLowerIndex) {
  EXPECT_EQ(route({1, 3, 3, 3}, {.top_k = 2}).ids, (Ids{1, 2}));
  EXPECT_EQ(route({5, 5, 5, 5}, {.top_k = 4}).ids, (Ids{0, 1, 2, 3}));
  EXPECT_EQ(route({5, 5, 5, 5, 5, 5}, {.top_k = 2, .groups = 3, .top_groups = 1}).ids, (Ids{0, 1}));
}

TEST_P(Edge, RouterWithNanLogitsNeverLeavesTheRange) {  // R8
  EXPECT_EQ(route({nan, nan, nan}, {.top_k = 2}).ids, (Ids{0, 1}));
  EXPECT_EQ(route({1, nan, 2}, {.top_k = 2}).ids, (Ids{0, 1}));  // softmax: the whole row is NaN
  EXPECT_EQ(route({-inf, -inf}, {.top_k = 1}).ids, (Ids{0}));
  EXPECT_EQ(route({inf, 1}, {.top_k = 1}).ids.front(), 0);
}

TEST_P(Edge, RouterChoosesNanLast) {
  const RouterRule rule{.score = RouterScore::sigmoid, .top_k = 3};
  EXPECT_EQ(route({nan, -50, 1, nan}, rule).ids, (Ids{2, 1, 0}));
  const RouterRule groups{.score = RouterScore::sigmoid, .top_k = 2, .groups = 2, .top_groups = 1};
  EXPECT_EQ(route({nan, nan, -9, -8}, groups).ids, (Ids{3, 2}));
}

TEST_P(Edge, RouterBiasSelectsButDoesNotWeigh) {  // B1
  const Routed r = route({0, 0, 1}, {.score = RouterScore::sigmoid, .top_k = 1, .normalize = false}, {0, 9, 0});
  EXPECT_EQ(r.ids, (Ids{1}));
  EXPECT_FLOAT_EQ(r.weights[0], 0.5f);
}

TEST_P(Edge, RouterGroupsAreRankedByTheirTwoBest) {
  // Groups {0, 1}, {2, 3}, {4, 5}: the best single expert (0) lies in a weak group.
  const RouterRule rule{.score = RouterScore::sigmoid, .top_k = 2, .groups = 3, .top_groups = 1};
  EXPECT_EQ(route({2, -9, 1, 1.5, 0, 1}, rule).ids, (Ids{3, 2}));
}

TEST_P(Edge, RouterWithUnderflowedScoresGivesNoNan) {
  for (float w : route({-300, -300, -300}, {.score = RouterScore::sigmoid, .top_k = 2}).weights) {
    EXPECT_GE(w, 0);
    EXPECT_LE(w, 1);
  }
}

TEST_P(Edge, RouterRefusesMoreExpertsThanItMayChooseFrom) {
  try {
    route({1, 2, 3, 4}, {.top_k = 3, .groups = 2, .top_groups = 1});
    FAIL();
  } catch (const std::logic_error& e) {
    EXPECT_STREQ(e.what(), "[router] cannot choose 3 of 4 experts from 1 of 2 groups");
  }
}

TEST_P(Edge, GroupedProductWithAllTokensOnOneExpert) {
  const std::vector<int64_t> offsets{0, 0, 3, 3};
  const Tensor x = tensor<float>({1, 2, 3, 4, 5, 6}, {3, 2}), out = filled({3, 1}, nan);
  const Tensor w = tensor<float>({nan, nan, 10, 1, nan, nan}, {3, 1, 2});  // empty experts are not even read
  k.grouped_matmul.forward(stream, out, x, w, offsets);
  EXPECT_EQ(out.to_vector<float>(), (Floats{12, 34, 56}));
}

TEST_P(Edge, AnExpertWithoutTokensGetsAZeroGradient) {  // R3
  const std::vector<int64_t> offsets{0, 2, 2};
  const Tensor x = tensor<float>({1, 2}, {2, 1}), dy = tensor<float>({3, 4}, {2, 1});
  const Tensor dw = filled({2, 1, 1}, nan);
  k.grouped_matmul.weight_gradient(stream, dw, dy, x, offsets, Write::replace);
  EXPECT_EQ(dw.to_vector<float>(), (Floats{11, 0}));
  k.grouped_matmul.weight_gradient(stream, dw, dy, x, offsets, Write::add);
  EXPECT_EQ(dw.to_vector<float>(), (Floats{22, 0}));
}

TEST_P(Edge, RowsOfNoExpertAreNeitherReadNorWritten) {
  const std::vector<int64_t> offsets{1, 2};
  const Tensor x = tensor<float>({nan, 2, nan}, {3, 1}), w = tensor<float>({5}, {1, 1, 1}), out = filled({3, 1}, 7);
  k.grouped_matmul.forward(stream, out, x, w, offsets);
  EXPECT_EQ(out.to_vector<float>(), (Floats{7, 10, 7}));
  const Tensor dw = filled({1, 1, 1}, nan);
  k.grouped_matmul.weight_gradient(stream, dw, x, x, offsets, Write::replace);
  EXPECT_EQ(dw.to_vector<float>(), (Floats{4}));
}

TEST_P(Edge, ADroppedSlotIsNotRead) {  // R3: 0 x NaN
  const Tensor y = tensor<float>({nan, 3}, {2, 1}), rows = tensor<int64_t>({-1, 1, -1, -1}, {2, 2});
  const Tensor weights = tensor<float>({nan, 2, nan, nan}, {2, 2}), out = filled({2, 1}, nan);
  k.permute.combine(stream, out, y, rows, weights);
  EXPECT_EQ(out.to_vector<float>(), (Floats{6, 0}));
}

TEST_P(Edge, CombineBackwardZeroesRowsAndWeightsOfDroppedSlots) {
  const Tensor y = tensor<float>({nan, 3}, {2, 1}), rows = tensor<int64_t>({-1, 1}, {1, 2});
  const Tensor dy = filled({2, 1}, nan), dweights = filled({1, 2}, nan);
  k.permute.combine_backward(stream, dy, dweights, filled({1, 1}, 5), y, rows, tensor<float>({nan, 2}, {1, 2}));
  EXPECT_EQ(dy.to_vector<float>(), (Floats{0, 10}));
  EXPECT_EQ(dweights.to_vector<float>(), (Floats{0, 15}));
}

TEST_P(Edge, RepeatedTokensAddUpInTheEmbedding) {
  const Tensor dtable = filled({3, 1}, 1);
  k.embedding.backward(stream, dtable, tensor<float>({1, 2, 4}, {3, 1}), tensor<int32_t>({2, 0, 2}, {3}));
  EXPECT_EQ(dtable.to_vector<float>(), (Floats{3, 1, 6}));
}

TEST_P(Edge, AllTargetsIgnoredIsNoLossAndNoGradient) {  // fault 29
  const Tensor logits = tensor<float>({nan, 2, 3, 4}, {2, 2}), losses = filled({2}, nan);
  k.cross_entropy.forward(stream, losses, logits, tensor<int32_t>({-1, -1}, {2}), 0.5);
  EXPECT_EQ(losses.to_vector<float>(), (Floats{0, 0}));
  EXPECT_EQ(logits.to_vector<float>(), (Floats{0, 0, 0, 0}));
}

TEST_P(Edge, CrossEntropyOfHugeLogitsIsFinite) {
  const Tensor logits = tensor<float>({3e4f, -3e4f}, {1, 2}), losses = filled({1}, nan);
  k.cross_entropy.forward(stream, losses, logits, tensor<int32_t>({1}, {1}), 1);
  EXPECT_EQ(losses.to_vector<float>(), (Floats{6e4f}));
  EXPECT_EQ(logits.to_vector<float>(), (Floats{1, -1}));
}

TEST_P(Edge, CrossEntropyOfNanIsNan) {  // so that the step is skipped
  const Tensor logits = tensor<float>({1, nan, 2}, {1, 3}), losses = filled({1}, 0);
  k.cross_entropy.forward(stream, losses, logits, tensor<int32_t>({0}, {1}), 1);
  EXPECT_TRUE(std::isnan(losses.to_vector<float>()[0]));
}

TEST_P(Edge, AQueryThatSeesNoKeyGivesZero) {
  const AttentionShape shape{.sequences = 1, .queries = 2, .keys = 2, .scale = 1};
  const Tensor q = tensor<float>({1, 1}, {2, 1, 1}), v = tensor<float>({5, 7}, {2, 1, 1}), out = filled({2, 1, 1}, nan);
  const Tensor log_sum_exp = filled({2, 1}, nan);
  const Tensor first = tensor<int32_t>({0, 1}, {1, 2}), last = tensor<int32_t>({0, 2}, {1, 2});
  k.attention.forward(stream, out, log_sum_exp, q, q, v, first, last, shape);
  EXPECT_EQ(out.to_vector<float>(), (Floats{0, 7}));
  EXPECT_EQ(log_sum_exp.to_vector<float>(), (Floats{-inf, 1}));
}

TEST_P(Edge, NanPassesThroughClampAndIntoTheNorm) {
  const Tensor out = filled({2}, 0);
  k.pointwise.clamp(stream, out, tensor<float>({nan, 9}, {2}), 1);
  EXPECT_TRUE(std::isnan(out.to_vector<float>()[0]));
  EXPECT_EQ(out.to_vector<float>()[1], 1);
  EXPECT_TRUE(std::isnan(k.optimizer.squared_norm(stream, tensor<float>({1, nan, 2, 3, 4}, {5}))));
}

TEST_P(Edge, Bf16RoundsToNearestEvenAndKeepsNan) {
  const Tensor out = empty({5}, Dtype::bf16);
  const float odd_nan = std::bit_cast<float>(0x7f800001u), full_nan = std::bit_cast<float>(0xffffffffu);
  k.pointwise.copy(stream, out, tensor<float>({1.00390625f, 1.01171875f, odd_nan, full_nan, inf}, {5}));
  const auto v = out.to_vector<bf16>();
  EXPECT_EQ(static_cast<float>(v[0]), 1.0f);
  EXPECT_EQ(static_cast<float>(v[1]), 1.015625f);
  EXPECT_TRUE(std::isnan(static_cast<float>(v[2])));
  EXPECT_TRUE(std::isnan(static_cast<float>(v[3])));
  EXPECT_EQ(static_cast<float>(v[4]), inf);
}

TEST_P(Edge, SwigluOfExtremeGatesIsFinite) {
  const Tensor out = filled({3}, nan), gate = tensor<float>({-1e4f, 0, 1e4f}, {3});
  k.swiglu.forward(stream, out, gate, filled({3}, 2));
  EXPECT_NEAR(out.to_vector<float>()[0], 0, 1e-30);
  EXPECT_EQ(out.to_vector<float>()[1], 0);
  EXPECT_EQ(out.to_vector<float>()[2], 2e4f);
}

INSTANTIATE_TEST_SUITE_P(Kernels, Edge, ::testing::Values(&cpu_table, &reference_table),
                         [](const auto& p) { return p.param == &cpu_table ? "cpu" : "reference"; });

// What only the fast table checks.
class CpuErrors : public Edge {};
INSTANTIATE_TEST_SUITE_P(Kernels, CpuErrors, ::testing::Values(&cpu_table), [](const auto&) { return "cpu"; });

TEST_P(CpuErrors, NameTheOperandWithItsShape) {
  try {
    k.rms_norm.forward(stream, empty({2, 4}), empty({2}), empty({2, 4}), empty({3}), 1e-6);
    FAIL();
  } catch (const std::logic_error& e) {
    EXPECT_STREQ(e.what(), "[rms_norm] gain has shape [3] and strides [1]; expected 4 contiguous elements");
  }
}

TEST_P(CpuErrors, NameTheIndexOutOfRange) {
  try {
    k.embedding.forward(stream, empty({2, 1}), empty({3, 1}), tensor<int32_t>({0, 3}, {2}));
    FAIL();
  } catch (const std::logic_error& e) {
    EXPECT_STREQ(e.what(), "[embedding] ids[1] is 3; expected 0 .. 2");
  }
}

TEST_P(CpuErrors, NameTheUnsupportedDtype) {
  try {
    k.rms_norm.forward(stream, empty({2, 4}), empty({2}), empty({2, 4}, Dtype::i32), empty({4}), 1e-6);
    FAIL();
  } catch (const std::logic_error& e) {
    EXPECT_STREQ(e.what(), "[rms_norm] does not support i32");
  }
}

}  // namespace
}  // namespace hexad::tests
