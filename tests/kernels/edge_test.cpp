// Edge cases of inputs, for each kernel table of the test program.
#include <atomic>
#include <cmath>
#include <numeric>

#include "tests/kernels/edge.h"

namespace hexad::tests {

using namespace base;
using namespace kernels;
namespace {

class Edge : public EdgeTest {
 protected:
  Tensor converted(const Tensor& t, Dtype dtype) {
    const Tensor out = empty(t.shape(), dtype);
    k.pointwise.copy(stream, out, t);
    return out;
  }
};

TEST_P(Edge, GroupedProductMayHaveAllTokensOnOneExpert) {
  const std::vector<int64_t> offsets{0, 0, 3, 3};
  const Tensor x = tensor<float>({1, 2, 3, 4, 5, 6}, {3, 2}), out = filled({3, 1}, nan);
  const Tensor w =
      tensor<float>({nan, nan, 10, 1, nan, nan}, {3, 1, 2});  // weights of experts without rows must not be read
  k.grouped_matmul.forward(stream, out, x, w, GroupOffsets::on_host(offsets), Write::replace);
  EXPECT_EQ(out.to_vector<float>(), (Floats{12, 34, 56}));
}

TEST_P(Edge, ExpertWithoutTokensGetsAZeroGradient) {  // the gradient must be zero, not stale memory
  const std::vector<int64_t> offsets{0, 2, 2};
  const Tensor x = tensor<float>({1, 2}, {2, 1}), dy = tensor<float>({3, 4}, {2, 1});
  const Tensor dw = filled({2, 1, 1}, nan);
  k.grouped_matmul.weight_gradient(stream, dw, dy, x, GroupOffsets::on_host(offsets), Write::replace);
  EXPECT_EQ(dw.to_vector<float>(), (Floats{11, 0}));
  k.grouped_matmul.weight_gradient(stream, dw, dy, x, GroupOffsets::on_host(offsets), Write::add);
  EXPECT_EQ(dw.to_vector<float>(), (Floats{22, 0}));
}

TEST_P(Edge, RowsWithoutExpertAreNeitherReadNorWritten) {
  const std::vector<int64_t> offsets{1, 2};
  const Tensor x = tensor<float>({nan, 2, nan}, {3, 1}), w = tensor<float>({5}, {1, 1, 1}), out = filled({3, 1}, 7);
  k.grouped_matmul.forward(stream, out, x, w, GroupOffsets::on_host(offsets), Write::replace);
  EXPECT_EQ(out.to_vector<float>(), (Floats{7, 10, 7}));
  const Tensor dw = filled({1, 1, 1}, nan);
  k.grouped_matmul.weight_gradient(stream, dw, x, x, GroupOffsets::on_host(offsets), Write::replace);
  EXPECT_EQ(dw.to_vector<float>(), (Floats{4}));
}

TEST_P(Edge, DroppedSlotIsNotRead) {  // 0 x NaN would be NaN
  const Tensor y = tensor<float>({nan, 3}, {2, 1}), rows = tensor<int64_t>({-1, 1, -1, -1}, {2, 2});
  const Tensor weights = tensor<float>({nan, 2, nan, nan}, {2, 2}), out = filled({2, 1}, nan);
  k.permute.combine(stream, out, y, rows, weights, {});
  EXPECT_EQ(out.to_vector<float>(), (Floats{6, 0}));
}

TEST_P(Edge, CombineBackwardZeroesRowsAndWeightsOfDroppedSlots) {
  const Tensor y = tensor<float>({nan, 3}, {2, 1}), rows = tensor<int64_t>({-1, 1}, {1, 2});
  const Tensor dy = filled({2, 1}, nan), dweights = filled({1, 2}, nan);
  for (const Tensor& tokens : {tensor<int64_t>({-1, 0}, {2}), Tensor{}}) {
    k.permute.combine_backward(stream, dy, dweights, filled({1, 1}, 5), y, rows, tokens,
                               tensor<float>({nan, 2}, {1, 2}));
    EXPECT_EQ(dy.to_vector<float>(), (Floats{0, 10}));
    EXPECT_EQ(dweights.to_vector<float>(), (Floats{0, 15}));
    k.pointwise.fill(stream, dy, nan), k.pointwise.fill(stream, dweights, nan);
  }
}

// In f32, the order of the sum 1e8 + 1 - 1e8 determines whether the 1 is lost. The reference sums in f64 and never
// loses it.
TEST_P(Edge, CombineSumsInSlotOrderForAnyOrderOfRows) {
  const Tensor out = filled({1, 1}, nan), moved = filled({1, 1}, nan);
  k.permute.combine(stream, out, tensor<float>({1e8F, 1, -1e8F}, {3, 1}), tensor<int64_t>({0, 1, 2}, {1, 3}), {}, {});
  k.permute.combine(stream, moved, tensor<float>({1, -1e8F, 1e8F}, {3, 1}), tensor<int64_t>({2, 0, 1}, {1, 3}), {}, {});
  EXPECT_TRUE(std::isfinite(out.to_vector<float>()[0]));
  EXPECT_EQ(moved.to_vector<float>(), out.to_vector<float>());
}

// `combine` is linear in rows and in weights, so <dout, combine> = <dy, y> = <dweights, weights>. All sums are exact,
// because they are sums of whole numbers.
TEST_P(Edge, CombineBackwardIsTheGradientOfCombine) {
  const Tensor y = tensor<float>({1, 2, 3, 4, 5, 6, 7, 8}, {4, 2}),
               rows = tensor<int64_t>({3, 1, 0, -1, -1, 2}, {3, 2});
  const Tensor weights = tensor<float>({2, 3, 5, 7, 11, 13}, {3, 2}), dout = tensor<float>({1, 4, 2, 5, 3, 6}, {3, 2});
  const Tensor out = filled({3, 2}, nan), dy = filled({4, 2}, nan), dweights = filled({3, 2}, nan);
  k.permute.combine(stream, out, y, rows, weights, {});
  k.permute.combine_backward(stream, dy, dweights, dout, y, rows, {}, weights);
  const auto dot = [](const Tensor& a, const Tensor& b) {
    const Floats x = a.to_vector<float>(), z = b.to_vector<float>();
    return std::inner_product(x.begin(), x.end(), z.begin(), 0.0F);
  };
  EXPECT_GT(dot(dout, out), 0);
  EXPECT_EQ(dot(dy, y), dot(dout, out));
  EXPECT_EQ(dot(dweights, weights), dot(dout, out));
}

TEST_P(Edge, RepeatedTokensAddUpInTheEmbedding) {
  const Tensor dtable = filled({3, 1}, 1);
  k.embedding.backward(stream, dtable, tensor<float>({1, 2, 4}, {3, 1}), tensor<int32_t>({2, 0, 2}, {3}));
  EXPECT_EQ(dtable.to_vector<float>(), (Floats{3, 1, 6}));
}

TEST_P(Edge, IgnoredTargetsGiveNoLossAndNoGradient) {
  const Tensor logits = tensor<float>({nan, 2, 3, 4}, {2, 2}), losses = filled({2}, nan);
  k.cross_entropy.forward(stream, losses, logits, logits, tensor<int32_t>({-1, -1}, {2}), 0.5);
  EXPECT_EQ(losses.to_vector<float>(), (Floats{0, 0}));
  EXPECT_EQ(logits.to_vector<float>(), (Floats{0, 0, 0, 0}));
}

TEST_P(Edge, CrossEntropyOfHugeLogitsIsFinite) {
  const Tensor logits = tensor<float>({3e4f, -3e4f}, {1, 2}), losses = filled({1}, nan);
  k.cross_entropy.forward(stream, losses, logits, logits, tensor<int32_t>({1}, {1}), 1);
  EXPECT_EQ(losses.to_vector<float>(), (Floats{6e4f}));
  EXPECT_EQ(logits.to_vector<float>(), (Floats{1, -1}));
}

TEST_P(Edge, CrossEntropyOfNanIsNan) {  // a finite loss would hide the error
  const Tensor logits = tensor<float>({1, nan, 2}, {1, 3}), losses = filled({1}, 0);
  k.cross_entropy.forward(stream, losses, logits, logits, tensor<int32_t>({0}, {1}), 1);
  EXPECT_TRUE(std::isnan(losses.to_vector<float>()[0]));
}

TEST_P(Edge, QueryWithoutVisibleKeyGivesZero) {
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
  const Tensor norm = doubles({0}), sum = filled({1}, 0), bad = tensor<float>({1, nan, 2, 3, 4}, {5});
  k.optimizer.squared_norm(stream, norm, bad, Write::replace);
  EXPECT_TRUE(std::isnan(norm.to_vector<double>()[0]));
  k.pointwise.sum(stream, sum, bad, Write::add);
  EXPECT_TRUE(std::isnan(sum.to_vector<float>()[0]));
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
  k.swiglu.forward(stream, out, gate, filled({3}, 2), {});
  EXPECT_NEAR(out.to_vector<float>()[0], 0, 1e-30);
  EXPECT_EQ(out.to_vector<float>()[1], 0);
  EXPECT_EQ(out.to_vector<float>()[2], 2e4f);
}

TEST_P(Edge, AddingToBf16RoundsOnce) {
  const auto bf16s = [&](std::vector<float> values, Shape shape) {
    const Tensor t = empty(shape, Dtype::bf16);
    k.pointwise.copy(stream, t, tensor(std::move(values), shape));
    return t;
  };
  // 256 + (1 + 2^-8) is rounded to 258, because neighbouring bf16 numbers above 256 differ by 2. The sum would be 256 +
  // 1, which is rounded to 256, if the product were rounded first.
  const std::vector<int64_t> offsets{0, 1};
  const GroupOffsets groups = GroupOffsets::on_host(offsets);
  const Tensor ones = bf16s({1, 1}, {1, 2}), w = bf16s({1, 0x1p-8f}, {1, 2}), tall = bf16s({1, 0x1p-8f}, {2, 1});
  const Tensor out[] = {bf16s({256}, {1, 1}), bf16s({256}, {1, 1}), bf16s({256}, {1, 1}), bf16s({256}, {1, 1})};
  k.matmul.forward(stream, out[0], ones, w, Write::add);
  k.matmul.input_gradient(stream, out[1], ones, tall, Write::add);
  k.grouped_matmul.forward(stream, out[2], ones, w.reshape({1, 1, 2}), groups, Write::add);
  k.matmul.weight_gradient(stream, out[3], ones.reshape({2, 1}), tall, Write::add);
  for (const Tensor& t : out) EXPECT_EQ(static_cast<float>(t.to_vector<bf16>()[0]), 258);
}

TEST_P(Edge, ReplacedResultIsNotRead) {
  const Tensor x = filled({2, 1}, 3), w = filled({1, 1}, 2), out = filled({2, 1}, nan), dw = filled({1, 1}, nan);
  k.matmul.forward(stream, out, x, w, Write::replace);
  EXPECT_EQ(out.to_vector<float>(), (Floats{6, 6}));
  k.matmul.input_gradient(stream, out, x, w, Write::replace);
  EXPECT_EQ(out.to_vector<float>(), (Floats{6, 6}));
  k.matmul.weight_gradient(stream, dw, x, x, Write::replace);
  EXPECT_EQ(dw.to_vector<float>(), (Floats{18}));
  const Tensor sum = filled({1}, nan), norm = doubles({nan}), counts = empty({1, 2}, Dtype::i64);
  k.pointwise.sum(stream, sum, x, Write::replace);
  EXPECT_EQ(sum.to_vector<float>(), (Floats{6}));
  k.optimizer.squared_norm(stream, norm, x, Write::replace);
  EXPECT_EQ(norm.to_vector<double>(), (Doubles{18}));
  k.router_loss.count(stream, counts, {}, tensor<int32_t>({1, -1}, {1, 2}), {});
  EXPECT_EQ(counts.to_vector<int64_t>(), (Rows{0, 1}));
}

TEST_P(Edge, OffsetsMayExistOnlyOnTheDevice) {
  const GroupOffsets groups{.groups = 2, .max_rows = 3, .device = tensor<int64_t>({0, 0, 2}, {3})};
  const Tensor x = filled({3, 1}, 5), w = tensor<float>({nan, 7}, {2, 1, 1}), out = filled({3, 1}, -1);
  k.grouped_matmul.forward(stream, out, x, w, groups, Write::replace);
  EXPECT_EQ(out.to_vector<float>(), (Floats{35, 35, -1}));
  const Tensor dbias = filled({2, 1}, 1);
  k.bias.grouped_backward(stream, dbias, x, groups);
  EXPECT_EQ(dbias.to_vector<float>(), (Floats{1, 11}));
}

// Tests GroupOffsets::host with kernels that may run after the call has returned. On the CPU, a busy lane delays the
// kernels. On other devices, launches are asynchronous.
TEST_P(Edge, OffsetsOfTheHostAreReadBeforeTheCallReturns) {
  std::atomic<bool> go = false;
  const auto lane = GetParam().kind == device::DeviceKind::cpu ? device::make_worker_stream("lane") : nullptr;
  Stream& late = lane ? *lane : stream;
  if (lane) lane->run([&] { go.wait(false); });
  const Tensor x = tensor<float>({1, 2, 3}, {3, 1}), w = tensor<float>({10, 100}, {2, 1, 1}), y = filled({3, 1}, nan);
  const Tensor dx = filled({3, 1}, nan), dw = filled({2, 1, 1}, nan), dbias = filled({2, 1}, 0), z = filled({3, 1}, 0);
  std::vector<int64_t> offsets{0, 1, 3};
  k.grouped_matmul.forward(late, y, x, w, GroupOffsets::on_host(offsets), Write::replace);
  k.grouped_matmul.input_gradient(late, dx, x, w, GroupOffsets::on_host(offsets), Write::replace);
  k.grouped_matmul.weight_gradient(late, dw, x, x, GroupOffsets::on_host(offsets), Write::replace);
  k.bias.grouped_forward(late, z, w.reshape({2, 1}), GroupOffsets::on_host(offsets));
  k.bias.grouped_backward(late, dbias, x, GroupOffsets::on_host(offsets));
  offsets.assign(3, 99);
  go = true;
  go.notify_all();
  late.synchronize();
  for (const Tensor& t : {y, dx}) EXPECT_EQ(t.to_vector<float>(), (Floats{10, 200, 300}));
  EXPECT_EQ(dw.to_vector<float>(), (Floats{1, 13}));
  EXPECT_EQ(z.to_vector<float>(), (Floats{10, 100, 100}));
  EXPECT_EQ(dbias.to_vector<float>(), (Floats{1, 5}));
}

TEST_P(Edge, NumbersChosenByBackendsAreAtLeastOne) {
  for (int64_t rows : {int64_t{0}, int64_t{1}, int64_t{1} << 30}) {
    EXPECT_GE(k.rms_norm.partials(rows), 1);
    EXPECT_GE(k.cross_entropy.block_rows(rows, int64_t{1} << 20), 1);
  }
}

TEST_P(Edge, GainsGradientOfNoRowsIsZero) {
  const Tensor partials = filled({k.rms_norm.partials(0), 2}, nan);
  k.rms_norm.backward(stream, {}, partials, empty({0, 2}), empty({0, 2}), filled({2}, 1), empty({0}), {});
  for (float v : partials.to_vector<float>()) EXPECT_EQ(v, 0);
}

TEST_P(Edge, GatherLeavesRowsWithoutTokenUntouched) {
  const Tensor out = filled({3, 1}, 9), x = tensor<float>({4, 5}, {2, 1}), tokens = tensor<int64_t>({1, -1, 0}, {3});
  k.permute.gather(stream, out, x, tokens, tensor<int64_t>({2, 0}, {2, 1}));
  EXPECT_EQ(out.to_vector<float>(), (Floats{5, 9, 4}));
}

TEST_P(Edge, TokenWithoutSlotsGetsTheSumOfItsAddends) {
  const Tensor y = filled({1, 1}, nan), rows = tensor<int64_t>({-1}, {1, 1}), out = filled({1, 1}, 3);
  k.permute.combine(stream, out, y, rows, {}, std::vector{out, filled({1, 1}, 4)});
  EXPECT_EQ(out.to_vector<float>(), (Floats{7}));
}

TEST_P(Edge, SortingNoSlotsGivesZeroOffsets) {
  const Tensor offsets = tensor<int64_t>({9, 9, 9}, {3}), ids = empty({0, 2}, Dtype::i32);
  k.slots.sort(stream, empty({0}, Dtype::i64), empty({0, 2}, Dtype::i64), offsets, ids);
  EXPECT_EQ(offsets.to_vector<int64_t>(), (Rows{0, 0, 0}));
}

TEST_P(Edge, SlotsAreSortedByExpertThenTokenThenSlot) {
  const Tensor tokens = empty({6}, Dtype::i64), rows = empty({3, 2}, Dtype::i64), offsets = empty({4}, Dtype::i64);
  const Tensor ids = tensor<int32_t>({2, 0, 0, 1, 2, 2}, {3, 2});
  k.slots.mask(stream, ids, tensor<uint8_t>({1, 0, 7}, {3}));
  k.slots.sort(stream, tokens, rows, offsets, ids);
  EXPECT_EQ(offsets.to_vector<int64_t>(), (Rows{0, 1, 1, 4}));
  EXPECT_EQ(rows.to_vector<int64_t>(), (Rows{1, 0, -1, -1, 2, 3}));
  EXPECT_EQ(tokens.to_vector<int64_t>(), (Rows{0, 0, 2, 2, -1, -1}));
}

TEST_P(Edge, SkippedStepWritesNothing) {
  const Tensor main = filled({2}, 1), m = filled({2}, 2), v = filled({2}, 3), copy = filled({2}, 4);
  const Tensor bad = filled({2}, nan), factor = doubles({5});
  k.optimizer.clip(stream, factor, doubles({nan, 1}), 1);
  EXPECT_EQ(factor.to_vector<double>(), (Doubles{-1}));
  const AdamwSlice slice{.main = main, .m = m, .v = v, .weights = copy, .gradient = bad, .weight_decay = 0.1};
  k.optimizer.adamw(stream, {&slice, 1}, {.lr = 1, .beta1 = 0.9, .beta2 = 0.9, .eps = 1e-8, .step = 1}, factor);
  k.optimizer.sgd(stream, main, copy, bad, 1, factor);
  float expected = 1;
  for (const Tensor& t : {main, m, v, copy}) EXPECT_EQ(t.to_vector<float>(), Floats(2, expected++));
}

TEST_P(Edge, GradientsAreClippedToTheLimit) {
  const Tensor factor = doubles({0});
  const auto clipped = [&](double squares, double limit) {
    k.optimizer.clip(stream, factor, doubles({squares, 7}), limit);
    return factor.to_vector<double>()[0];
  };
  EXPECT_EQ(clipped(16, 2), 0.5);
  EXPECT_EQ(clipped(16, 4), 1);
  EXPECT_EQ(clipped(16, 9), 1);
  EXPECT_EQ(clipped(16, 0), 1);
  EXPECT_EQ(clipped(0, 1), 1);
}

TEST_P(Edge, RowsWithoutADestinationAreNotScattered) {
  const Tensor out = filled({3, 1}, 7), x = tensor<float>({nan, 5, nan, 6}, {4, 1});
  k.permute.scatter(stream, out, x, tensor<int64_t>({-1, 2, -1, 0}, {4}));
  EXPECT_EQ(out.to_vector<float>(), (Floats{6, 7, 5}));
  k.permute.scatter(stream, out, filled({2, 1}, nan), tensor<int64_t>({-1, -1}, {2}));
  EXPECT_EQ(out.to_vector<float>(), (Floats{6, 7, 5}));
}

// The vocabulary is a power of two: a sort by the low bits of the ids must not mistake -1 for the last id.
TEST_P(Edge, TokensWithoutIdAddNothingToTheEmbedding) {
  const Tensor dtable = filled({4, 1}, 1), dout = tensor<float>({nan, 2, nan, 4, 8}, {5, 1});
  k.embedding.backward(stream, dtable, dout, tensor<int32_t>({-1, 3, -1, 3, 0}, {5}));
  EXPECT_EQ(dtable.to_vector<float>(), (Floats{9, 1, 1, 7}));
  k.embedding.backward(stream, dtable, filled({2, 1}, nan), tensor<int32_t>({-1, -1}, {2}));
  EXPECT_EQ(dtable.to_vector<float>(), (Floats{9, 1, 1, 7}));
}

TEST_P(Edge, ShiftKeepsNegativeIndices) {
  const Tensor x = tensor<int32_t>({0, -1, 5, -7}, {4}), wide = tensor<int64_t>({-1, int64_t{1} << 40}, {2});
  const Tensor out = empty({4}, Dtype::i32);
  k.index.shift(stream, out, x, -3);  // results may be negative
  EXPECT_EQ(out.to_vector<int32_t>(), (Ids{-3, -1, 2, -7}));
  k.index.shift(stream, wide, wide, 2);
  EXPECT_EQ(wide.to_vector<int64_t>(), (Rows{-1, (int64_t{1} << 40) + 2}));
  k.index.shift(stream, empty({0}, Dtype::i64), empty({0}, Dtype::i64), 1);
}

TEST_P(Edge, IndicesOutsideTheRangeBecomeMinusOne) {
  const Tensor x = tensor<int32_t>({2, 3, 5, 6, -1}, {5}), rows = empty({5, 1}, Dtype::i64);
  k.index.within(stream, rows, x, 3, 3);
  EXPECT_EQ(rows.to_vector<int64_t>(), (Rows{-1, 0, 2, -1, -1}));
  k.index.within(stream, x, x, 3, 3);
  EXPECT_EQ(x.to_vector<int32_t>(), (Ids{-1, 0, 2, -1, -1}));
  k.index.within(stream, x, x, 0, 0);
  EXPECT_EQ(x.to_vector<int32_t>(), (Ids(5, -1)));
}

TEST_P(Edge, NumbersInPartsSkipEmptyParts) {
  const auto numbers = [&](int64_t count, const Rows& parts) {
    const Tensor out = empty({count}, Dtype::i64);
    k.index.iota_parts(stream, out, tensor<int64_t>(parts, {2, static_cast<int64_t>(parts.size()) / 2}));
    return out.to_vector<int64_t>();
  };
  EXPECT_EQ(numbers(5, {0, 2, 2, 5, 5, 100, 10, 200, -2, 300}), (Rows{10, 11, 0, 1, 2}));
  EXPECT_EQ(numbers(1, {1, int64_t{1} << 40}), (Rows{int64_t{1} << 40}));
  EXPECT_EQ(numbers(0, {0, 7}), Rows{});
  EXPECT_EQ(numbers(0, {}), Rows{}) << "a list of no parts contains no numbers";
}

TEST_P(Edge, BlockWithoutKeysDoesNotChangeAttention) {
  const Tensor sum = tensor<float>({1, 2, 3, nan}, {4, 1, 1}), log_sum_exp = tensor<float>({-inf, 1, 2, -inf}, {4, 1});
  const Tensor block = tensor<float>({nan, nan, 5, nan}, {4, 1, 1}),
               block_log_sum_exp = tensor<float>({-inf, -inf, 2, -inf}, {4, 1});
  k.attention.merge(stream, sum, log_sum_exp, block, block_log_sum_exp);
  const Floats sums = sum.to_vector<float>(), logs = log_sum_exp.to_vector<float>();
  EXPECT_EQ((Floats{sums[0], sums[1]}), (Floats{1, 2}));
  EXPECT_TRUE(std::isnan(sums[3]));
  EXPECT_EQ((Floats{logs[0], logs[1], logs[3]}), (Floats{-inf, 1, -inf}));
  EXPECT_FLOAT_EQ(sums[2], 4);  // both blocks have equal weights
  EXPECT_FLOAT_EQ(logs[2], 2 + std::log(2.0f));
}

TEST_P(Edge, MergingTheFirstBlockGivesItsAttention) {
  const Tensor sum = filled({1, 2, 2}, 0), log_sum_exp = filled({1, 2}, -inf);
  k.attention.merge(stream, sum, log_sum_exp, tensor<float>({1, 2, 3, 4}, {1, 2, 2}), tensor<float>({-80, 90}, {1, 2}));
  EXPECT_EQ(sum.to_vector<float>(), (Floats{1, 2, 3, 4}));
  EXPECT_EQ(log_sum_exp.to_vector<float>(), (Floats{-80, 90}));
}

TEST_P(Edge, SumOfSeveralTensorsIsRoundedOnce) {
  std::vector<Tensor> addends;
  for (float value : {256.0f, 1.0f, 1.0f}) {  // if each sum were rounded, 256 + 1 would give 256
    addends.push_back(empty({1}, Dtype::bf16));
    k.pointwise.fill(stream, addends.back(), value);
  }
  k.pointwise.sum_of(stream, addends[1], addends);
  EXPECT_EQ(static_cast<float>(addends[1].to_vector<bf16>()[0]), 258);
}

TEST_P(Edge, SumOfOneTensorIsACopy) {
  const Tensor out = filled({2}, nan);
  k.pointwise.sum_of(stream, out, std::vector{tensor<float>({-0.0f, inf}, {2})});
  EXPECT_TRUE(std::signbit(out.to_vector<float>()[0]));  // adding to zero would lose the sign
  EXPECT_EQ(out.to_vector<float>()[1], inf);
  k.pointwise.sum_of(stream, empty({0}), std::vector{empty({0}), empty({0})});
}

TEST_P(Edge, SplitSoftmaxMatchesTheSoftmaxOfAllColumns) {
  const Tensor whole = tensor<float>({1, -2, 3, 0.5}, {1, 4}), losses = filled({1}, nan), expected = filled({1}, nan);
  const Tensor target = tensor<int32_t>({2}, {1}), statistics = filled({2, 3, 1}, nan);
  const Tensor parts[] = {tensor<float>({1}, {1, 1}), tensor<float>({-2, 3, 0.5}, {1, 3})};
  k.cross_entropy.forward(stream, expected, whole, whole, target, 2);
  for (int64_t rank : {0, 1})
    k.split_softmax.start(stream, statistics.slice(0, rank, rank + 1), parts[rank], target, rank);
  EXPECT_EQ(statistics.to_vector<float>()[2], 0);  // rank 0 does not hold the target's column
  EXPECT_EQ(statistics.to_vector<float>()[5], 3);
  Floats gradient;
  for (int64_t rank : {0, 1}) {
    k.split_softmax.finish(stream, losses, parts[rank], statistics, rank, target, rank, 2);
    EXPECT_FLOAT_EQ(losses.to_vector<float>()[0], expected.to_vector<float>()[0]);
    for (float g : parts[rank].to_vector<float>()) gradient.push_back(g);
  }
  for (size_t i = 0; i < gradient.size(); ++i) EXPECT_NEAR(gradient[i], whole.to_vector<float>()[i], 1e-6);
}

TEST_P(Edge, SplitSoftmaxOfMaskedColumnsIsZero) {
  const Tensor statistics = filled({2, 3, 1}, nan), losses = filled({1}, nan), target = tensor<int32_t>({1}, {1});
  for (const Dtype of_logits : {Dtype::f32, Dtype::bf16}) {
    const Tensor ruled_out = converted(filled({1, 1}, -inf), of_logits);
    const Tensor other = converted(tensor<float>({3e4f, -3e4f}, {1, 2}), of_logits);
    k.split_softmax.start(stream, statistics.slice(0, 0, 1), ruled_out, target, 0);
    k.split_softmax.start(stream, statistics.slice(0, 1, 2), other, target, 1);
    k.split_softmax.finish(stream, losses, ruled_out, statistics, 0, target, 0, 1);
    k.split_softmax.finish(stream, losses, other, statistics, 1, target, 1, 1);
    EXPECT_EQ(losses.to_vector<float>(), (Floats{0})) << of_logits;
    EXPECT_EQ(converted(ruled_out, Dtype::f32).to_vector<float>(), (Floats{0})) << of_logits;
    EXPECT_EQ(converted(other, Dtype::f32).to_vector<float>(), (Floats{0, 0})) << of_logits;
  }
}

TEST_P(Edge, SplitSoftmaxOfNanIsNanUnlessIgnored) {
  const Tensor statistics = filled({1, 3, 2}, 0), targets = tensor<int32_t>({0, -1}, {2});
  for (const Dtype of_logits : {Dtype::f32, Dtype::bf16}) {
    const Tensor logits = converted(tensor<float>({1, nan, 2, nan}, {2, 2}), of_logits), losses = filled({2}, 0);
    k.split_softmax.start(stream, statistics, logits, targets, 0);
    k.split_softmax.finish(stream, losses, logits, statistics, 0, targets, 0, 1);
    EXPECT_TRUE(std::isnan(losses.to_vector<float>()[0])) << of_logits;
    EXPECT_EQ(losses.to_vector<float>()[1], 0) << of_logits;
    const Floats gradient = converted(logits, Dtype::f32).to_vector<float>();
    EXPECT_EQ((Floats{gradient[2], gradient[3]}), (Floats{0, 0})) << of_logits;
  }
  k.split_softmax.start(stream, empty({3, 0}), empty({0, 2}), empty({0}, Dtype::i32), 0);
  k.split_softmax.finish(stream, empty({0}), empty({0, 2}), empty({1, 3, 0}), 0, empty({0}, Dtype::i32), 0, 1);
}

INSTANTIATE_TEST_SUITE_P(Kernels, Edge, ::testing::ValuesIn(backends_under_test()),
                         [](const auto& p) { return p.param.name; });

}  // namespace
}  // namespace hexad::tests
