#include <gtest/gtest.h>

#include <cmath>

#include "framework/autograd/ops/ops.h"
#include "tests/support/gradcheck.h"

namespace hexad::tests {

using namespace autograd;
using namespace base;
using namespace kernels;
namespace {

using Inputs = const std::vector<Value>&;

struct Angles {
  Tensor cosine, sine;
};

// Returns the cosines and sines of the rotary angles of `context` positions, for heads of `size` elements.
Angles angles(Lab& lab, int64_t context, int64_t size) {
  std::vector<double> cosine, sine;
  for (int64_t p = 0; p < context; ++p)
    for (int64_t i = 0; i < size / 2; ++i) {
      const double angle = static_cast<double>(p) * std::pow(10.0, -2.0 * static_cast<double>(i) / size);
      cosine.push_back(std::cos(angle)), sine.push_back(std::sin(angle));
    }
  return {lab.values(cosine, {context, size / 2}), lab.values(sine, {context, size / 2})};
}

TEST(Rotary, GradientsMatchFiniteDifferences) {
  Lab lab;
  const auto [cosine, sine] = angles(lab, 8, 6);
  const Tensor positions = lab.values<int32_t>({0, 5, 5, 7});
  gradcheck(lab, {lab.randn({4, 4, 6}), lab.randn({4, 2, 6})}, [&](Tape& t, Inputs x) {
    const Rotated y = rotary(t, x[0], x[1], positions, cosine, sine);
    return std::vector<Value>{y.q, y.k};
  });
}

TEST(Rotary, GradientsOfPartlyRotatedHeadsMatchFiniteDifferences) {
  Lab lab;
  const auto [cosine, sine] = angles(lab, 8, 4);
  const Tensor positions = lab.values<int32_t>({0, 5, 5, 7});
  gradcheck(lab, {lab.randn({4, 4, 7}), lab.randn({4, 2, 7})}, [&](Tape& t, Inputs x) {
    const Rotated y = rotary(t, x[0], x[1], positions, cosine, sine);
    return std::vector<Value>{y.q, y.k};
  });
}

TEST(Rotary, RotatesOnlyTheDimensionsOfTheTable) {
  Lab lab;
  const auto [cosine, sine] = angles(lab, 8, 4);
  const Tensor positions = lab.values<int32_t>({1, 2, 3, 4}), q = lab.randn({4, 4, 7}), k = lab.randn({4, 2, 7});
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  const Rotated y = rotary(tape, tape.leaf(q), tape.leaf(k), positions, cosine, sine);
  const auto before = q.to_vector<double>(), after = y.q.data.to_vector<double>();
  for (size_t i = 0; i < before.size(); ++i) EXPECT_EQ(before[i] == after[i], i % 7 >= 4) << i;
}

TEST(Rotary, BackwardUndoesForward) {
  Lab lab;
  const auto [cosine, sine] = angles(lab, 8, 6);
  const Tensor positions = lab.values<int32_t>({1, 2, 3, 4}), q = lab.randn({4, 4, 6}), k = lab.randn({4, 2, 6});
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  const Value queries = tape.leaf(q), keys = tape.leaf(k);
  const Rotated y = rotary(tape, queries, keys, positions, cosine, sine);
  Replay replay(tape, std::vector<Replay::Root>{{y.q, y.q.data}, {y.k, y.k.data}});
  replay.run();
  expect_close(q, replay.take_gradient(queries), tolerance(Dtype::f64, 4));
  expect_close(k, replay.take_gradient(keys), tolerance(Dtype::f64, 4));
}

TEST(Rotary, KeysHaveAGradientIfQueriesHaveNone) {
  Lab lab;
  const auto [cosine, sine] = angles(lab, 8, 6);
  const Tensor positions = lab.values<int32_t>({1, 2, 3, 4}), k = lab.randn({4, 2, 6});
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  const Value queries = tape.leaf(lab.randn({4, 4, 6})), keys = tape.leaf(k);
  const Rotated y = rotary(tape, queries, keys, positions, cosine, sine);
  Replay replay(tape, std::vector<Replay::Root>{{y.k, y.k.data}});
  replay.run();
  EXPECT_FALSE(replay.take_gradient(queries).defined());
  expect_close(k, replay.take_gradient(keys), tolerance(Dtype::f64, 4));
}

struct Case {
  std::string name;
  int64_t heads, groups;  // number of query heads; number of key and value heads
  AttentionShape shape;
  std::vector<int32_t> first = {}, last = {};
  Zeros zeros = Zeros::mistrusted;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
constexpr double scale_of_4 = 0.5;  // scale of heads with four elements

class Attention : public testing::TestWithParam<Case> {};

TEST_P(Attention, GradientsMatchFiniteDifferences) {
  const Case& c = GetParam();
  Lab lab;
  const auto ranges = [&](const std::vector<int32_t>& v) {
    return v.empty() ? Tensor{} : lab.values(v, {c.shape.sequences, c.shape.queries});
  };
  const Tensor first = ranges(c.first), last = ranges(c.last);
  const int64_t queries = c.shape.sequences * c.shape.queries, keys = c.shape.sequences * c.shape.keys;
  gradcheck(lab, {lab.randn({queries, c.heads, 4}), lab.randn({keys, c.groups, 4}), lab.randn({keys, c.groups, 4})},
            [&](Tape& t, Inputs x) { return attention(t, x[0], x[1], x[2], first, last, c.shape); },
            {.zeros = c.zeros});
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, Attention,
    testing::Values(
        Case{"causal", 2, 2, {2, 3, 3, scale_of_4}}, Case{"bidirectional", 2, 2, {2, 3, 3, scale_of_4, false}},
        Case{"grouped_queries", 4, 2, {1, 4, 4, scale_of_4}}, Case{"one_key_head", 3, 1, {1, 4, 4, scale_of_4, false}},
        Case{"documents", 2, 1, {1, 5, 5, scale_of_4}, {0, 0, 2, 2, 2}, {2, 2, 5, 5, 5}},
        Case{"documents_bidirectional", 2, 1, {1, 5, 5, scale_of_4, false}, {0, 0, 2, 2, 2}, {2, 2, 5, 5, 5}},
        Case{"documents_of_two_sequences",
             1,
             1,
             {2, 3, 3, scale_of_4, false},
             {0, 1, 1, 0, 0, 2},
             {1, 3, 3, 2, 2, 3},
             Zeros::expected},
        // Row 1 has no visible key, so its output and its gradients are zero.
        Case{"a_row_that_sees_no_key", 2, 2, {1, 3, 3, scale_of_4, false}, {0, 2, 2}, {2, 2, 3}, Zeros::expected},
        Case{"query_offset", 2, 2, {1, 2, 5, scale_of_4, true, 3}},
        Case{"window", 2, 1, {.sequences = 2, .queries = 6, .keys = 6, .scale = scale_of_4, .window = 3}},
        Case{"one_position", 2, 1, {3, 1, 1, scale_of_4}, {}, {}, Zeros::expected},
        Case{"many_elements", 4, 2, {2, 11, 11, scale_of_4}}),
    [](const auto& test) { return test.param.name; });

TEST(AttentionSinks, GradientsMatchFiniteDifferences) {
  for (const int64_t window : {0, 3}) {
    Lab lab;
    Parameter& logits = lab.parameter({4});
    const AttentionShape shape{.sequences = 2, .queries = 5, .keys = 5, .scale = scale_of_4, .window = window};
    gradcheck(lab, {lab.randn({10, 4, 4}), lab.randn({10, 2, 4}), lab.randn({10, 2, 4})},
              [&](Tape& t, Inputs x) { return attention(t, x[0], x[1], x[2], {}, {}, shape, AttentionSinks(logits)); });
  }
}

// A key of zeros with values of zeros has the score 0, so it acts as a sink with the logit 0.
TEST(AttentionSinks, ActLikeAKeyWithoutAValue) {
  Lab lab;
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  const Tensor q = lab.randn({3, 2, 4}), further = lab.randn({4, 2, 4}), values = lab.randn({4, 2, 4});
  kernels::kernels(q.device()).pointwise.fill(lab.stream(), further.slice(0, 0, 1), 0);
  kernels::kernels(q.device()).pointwise.fill(lab.stream(), values.slice(0, 0, 1), 0);
  Parameter& logits = lab.parameter({2});
  kernels::kernels(q.device()).pointwise.fill(lab.stream(), logits.local(), 0);
  const Value with_key = attention(tape, {q}, {further}, {values}, {}, {},
                                   {.sequences = 1, .queries = 3, .keys = 4, .scale = scale_of_4, .query_offset = 1});
  const Value with_sink =
      attention(tape, {q}, {further.slice(0, 1, 4)}, {values.slice(0, 1, 4)}, {}, {},
                {.sequences = 1, .queries = 3, .keys = 3, .scale = scale_of_4}, AttentionSinks(logits));
  expect_close(with_key.data, with_sink.data, tolerance(Dtype::f64, 4));
}

TEST(AttentionErrors, NameMismatchedShapes) {
  Lab lab;
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  const auto message = [&](Shape q, Shape k, Shape v, const AttentionShape& shape) -> std::string {
    try {
      attention(tape, tape.leaf(lab.randn(q)), tape.leaf(lab.randn(k)), tape.leaf(lab.randn(v)), {}, {}, shape);
    } catch (const std::logic_error& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(
      message({6, 2, 4}, {6, 2, 3}, {6, 2, 3}, {2, 3, 3, 1}),
      "[attention] q is [6, 2, 4], k [6, 2, 3], v [6, 2, 3]; expected rank 3 of each, equal head sizes, and equal "
      "shapes of k and v");
  EXPECT_EQ(message({6, 3, 4}, {6, 2, 4}, {6, 2, 4}, {2, 3, 3, 1}),
            "[attention] q has 3 heads, k 2; expected at least 1 head of k, and a multiple of the heads of k in q");
  EXPECT_EQ(message({6, 2, 4}, {6, 0, 4}, {6, 0, 4}, {2, 3, 3, 1}),
            "[attention] q has 2 heads, k 0; expected at least 1 head of k, and a multiple of the heads of k in q");
  EXPECT_EQ(
      message({6, 2, 4}, {6, 2, 4}, {6, 2, 4}, {2, 4, 3, 1}),
      "[attention] q is [6, 2, 4], k [6, 2, 4]; expected 8 rows of q (2 sequences of 4 queries) and 6 rows of k (2 "
      "sequences of 3 keys)");
}

}  // namespace
}  // namespace hexad::tests
