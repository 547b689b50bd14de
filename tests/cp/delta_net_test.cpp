// Delta nets over ranks that share sequences equal delta nets over whole sequences.
#include "parallel/cp/delta_net_ops.h"

#include <gtest/gtest.h>

#include <array>

#include "framework/base/error.h"
#include "parallel/comm/self_group.h"
#include "parallel/comm/thread_group.h"
#include "tests/cp/context_check.h"
#include "tests/support/gradcheck.h"

namespace hexad::tests {

using namespace autograd;
using namespace base;
namespace {

using cp::DeltaRows;

constexpr int64_t sequences = 2, heads = 4, key_heads = 2, size = 3, values = 5, width = 6, taps = 3;

struct Layout {
  std::string name;
  int ranks;
  int64_t length;
  bool documents;
};
void PrintTo(const Layout& l, std::ostream* out) { *out << l.name; }

// Returns the first position of the document of each token. Each document has seven tokens, but the end of a
// sequence may cut its last document.
std::vector<int32_t> first_positions(int64_t length) {
  std::vector<int32_t> first;
  for (int64_t s = 0; s < sequences; ++s)
    for (int64_t i = 0; i < length; ++i) first.push_back(static_cast<int32_t>(i / 7 * 7));
  return first;
}

DeltaRows rows_on(Lab& lab, const Layout& l, const comm::ProcessGroup& group) {
  DeltaRows rows{.split = {.sequences = sequences, .length = l.length, .ranks = group.size(), .rank = group.rank()},
                 .group = &group};
  if (l.documents) rows.first = lab.values(rows.split.cut(first_positions(l.length)));
  return rows;
}

// Three-dimensional operands of the rule and of a convolution for the whole micro-batch, and gradients of the results.
struct Whole {
  std::array<Tensor, 5> rule;
  Tensor x, dout, dx;
};
// Returns center + spread * x for standard normal numbers x.
Tensor numbers_around(Lab& lab, const Shape& shape, double center, double spread) {
  std::vector<double> v = values_of(lab.randn(shape));
  for (double& x : v) x = center + spread * x;
  return lab.values(v, shape);
}

Whole random_whole(Lab& lab, int64_t length) {
  const int64_t tokens = sequences * length;
  Whole w;
  w.rule[0] = lab.randn({tokens, key_heads, size}), w.rule[1] = lab.randn({tokens, key_heads, size});
  w.rule[2] = lab.randn({tokens, heads, values});
  w.rule[3] = numbers_around(lab, {tokens, heads, 1}, -0.1, 0.02);
  w.rule[4] = numbers_around(lab, {tokens, heads, 1}, 0.5, 0.1);
  w.x = lab.randn({tokens, 1, width});
  w.dout = lab.randn({tokens, heads, values}), w.dx = lab.randn({tokens, 1, width});
  return w;
}

// Returns the results of the rule and of the convolution, then the gradients of their operands. The gradient of
// the filter is last.
std::vector<Tensor> results(Lab& lab, const Whole& whole, const DeltaRows& rows) {
  const auto tokens = rows.split.tokens();
  const auto mine = [&](const Tensor& t) { return rows_of(lab, t, tokens); };
  Parameter& filter = lab.parameter({width, taps});
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  const int64_t n = rows.split.rows();
  std::vector<Value> leaves;
  for (size_t i = 0; i < whole.rule.size(); ++i) {
    const Tensor t = mine(whole.rule[i]);
    leaves.push_back(tape.leaf(i < 3 ? t : t.reshape({n, heads})));
  }
  leaves.push_back(tape.leaf(mine(whole.x).reshape({n, width})));
  const Value y = cp::delta_rule(tape, {leaves[0], leaves[1], leaves[2], leaves[3], leaves[4]}, rows);
  const Value convolved = cp::causal_conv(tape, leaves[5], filter, rows);
  Replay replay(tape,
                std::vector<Replay::Root>{{y, mine(whole.dout)}, {convolved, mine(whole.dx).reshape({n, width})}});
  replay.run();
  std::vector<Tensor> all{y.data, convolved.data};
  for (const Value& leaf : leaves) all.push_back(replay.take_gradient(leaf));
  all.push_back(filter.gradient());
  return all;
}

// Returns `t` with three dimensions, as rows_of() requires.
Tensor as_rows(const Tensor& t) { return t.rank() == 3 ? t : t.reshape({t.dim(0), 1, t.dim(1)}); }

class DeltaNetOverRanks : public testing::TestWithParam<Layout> {};

TEST_P(DeltaNetOverRanks, EqualsOneRankInOutputsAndGradients) {
  const Layout& l = GetParam();
  const comm::SelfGroup self;
  Lab one;
  const Whole whole = random_whole(one, l.length);
  const std::vector<Tensor> expected = results(one, whole, rows_on(one, l, self));
  comm::with_ranks(l.ranks, [&](const ProcessGroup& world) {
    Lab lab;
    random_whole(lab, l.length);  // draws the same numbers as `one` did, so that the filters agree
    const DeltaRows rows = rows_on(lab, l, world);
    std::vector<Tensor> mine = results(lab, whole, rows);
    const double allowed = tolerance(Dtype::f64, 64 * l.length);
    for (size_t i = 0; i + 1 < mine.size(); ++i) {
      SCOPED_TRACE(cat("result ", i));
      expect_close(rows_of(lab, as_rows(expected[i]), rows.split.tokens()), as_rows(mine[i]), allowed);
    }
    lab.stream().wait(world.all_reduce(mine.back(), comm::Reduce::sum, lab.stream()));
    expect_close(lab.values(values_of(expected.back()), expected.back().shape()), mine.back(), allowed);
  });
}

std::vector<Layout> layouts() {
  std::vector<Layout> all;
  for (const int ranks : {1, 2, 3, 4})
    for (const bool documents : {false, true}) {
      all.push_back({cat(ranks, documents ? "_documents" : ""), ranks, 10 * ranks, documents});
      all.push_back({cat(ranks, "_short_pieces", documents ? "_documents" : ""), ranks, 4 * ranks, documents});
    }
  all.push_back({"2_more_than_a_chunk_of_the_kernel", 2, 4 * 70, false});
  return all;
}

INSTANTIATE_TEST_SUITE_P(L3, DeltaNetOverRanks, testing::ValuesIn(layouts()),
                         [](const auto& test) { return "ranks_" + test.param.name; });

TEST(DeltaNetOfOneRank, GradientsMatchFiniteDifferences) {
  const comm::SelfGroup self;
  Lab lab;
  const Layout l{"one", 1, 9, true};
  const DeltaRows rows = rows_on(lab, l, self);
  const Whole whole = random_whole(lab, l.length);
  const int64_t n = rows.split.rows();
  std::vector<Tensor> inputs(whole.rule.begin(), whole.rule.end());
  inputs[3] = inputs[3].reshape({n, heads}), inputs[4] = inputs[4].reshape({n, heads});
  gradcheck(lab, inputs, [&](Tape& t, const std::vector<Value>& x) {
    return cp::delta_rule(t, {x[0], x[1], x[2], x[3], x[4]}, rows);
  });
  Parameter& filter = lab.parameter({width, taps});
  gradcheck(lab, {whole.x.reshape({n, width})},
            [&](Tape& t, const std::vector<Value>& x) { return cp::causal_conv(t, x[0], filter, rows); });
}

TEST(ConvolutionOverRanks, RefusesPiecesShorterThanTheEarlierTokensOfAFilter) {
  comm::with_ranks(2, [](const ProcessGroup& world) {
    Lab lab;
    Parameter& filter = lab.parameter({width, 4});
    const DeltaRows rows = rows_on(lab, {"short", 2, 8, false}, world);
    const auto policy = keep_policy();
    Tape tape(lab.stream(), *policy);
    const Value x = tape.leaf(lab.randn({rows.split.rows(), width}));
    EXPECT_THROW(cp::causal_conv(tape, x, filter, rows), std::logic_error);
  });
}

}  // namespace
}  // namespace hexad::tests
