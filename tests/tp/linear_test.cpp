// Column- and row-parallel products, compared with plain products, and bitwise with their unfused compositions.
#include "parallel/tp/parallel_linear.h"

#include "framework/autograd/recomputation.h"
#include "parallel/tp/regions.h"
#include "tests/tp/tp_lab.h"

namespace hexad::tests {

using namespace autograd;
using namespace base;
using namespace kernels;
namespace {

// Feed-forward layer with a gate.
struct Mlp {
  Parameter *gate, *up, *down;
  Parameter *gate_bias = nullptr, *up_bias = nullptr, *down_bias = nullptr;

  std::vector<Parameter*> all() const {
    std::vector<Parameter*> present;
    for (Parameter* p : {gate, up, down, gate_bias, up_bias, down_bias})
      if (p) present.push_back(p);
    return present;
  }
};

struct Sizes {
  int64_t rows, inputs, hidden, outputs;
};
// Sizes whose hidden size is not divisible by 2, 3 or 4, the tested numbers of ranks.
constexpr Sizes odd{12, 7, 13, 9};
// Sizes for which sums have several pieces.
constexpr Sizes large{240, 37, 29, 131};

enum class Bias : bool { no, yes };

Mlp make(TpLab& lab, const Sizes& s, Bias bias) {
  Mlp m{&lab.parameter({s.hidden, s.inputs}), &lab.parameter({s.hidden, s.inputs}),
        &lab.parameter({s.outputs, s.hidden})};
  if (bias == Bias::yes)
    m.gate_bias = &lab.parameter({s.hidden}), m.up_bias = &lab.parameter({s.hidden}),
    m.down_bias = &lab.parameter({s.outputs});
  return m;
}

Mlp pieces_of(TpLab& lab, const Mlp& m) {
  const auto piece = [&](Parameter* p, int dim) { return p ? &lab.piece(*p, dim) : nullptr; };
  return {piece(m.gate, 0),      piece(m.up, 0),      piece(m.down, 1),
          piece(m.gate_bias, 0), piece(m.up_bias, 0), m.down_bias ? &lab.replica(*m.down_bias) : nullptr};
}

using Forward = std::function<Value(Tape&, const Value&, const Mlp&)>;

// Uses the two products differently, so a swap changes the result.
Value joined(Tape& t, const Value& gate, const Value& up) { return add(t, gelu(t, gate, GeluKind::exact), up); }

Value plain(Tape& t, const Value& x, const Mlp& m) {
  return linear(t, joined(t, linear(t, x, *m.gate, m.gate_bias), linear(t, x, *m.up, m.up_bias)), *m.down, m.down_bias);
}

Forward fused(const TensorParallel& tp) {
  return [tp](Tape& t, const Value& x, const Mlp& m) {
    const tp::Projection projections[] = {{m.gate, m.gate_bias}, {m.up, m.up_bias}};
    const auto h = tp::column_linear(t, x, projections, tp);
    return tp::row_linear(t, joined(t, h[0], h[1]), *m.down, m.down_bias, tp);
  };
}

// Returns the unfused composition, which communicates before and after the products. The Mlp must have no biases,
// because every rank would add the last bias before the sum.
Forward composed(const TensorParallel& tp) {
  return [tp](Tape& t, const Value& x, const Mlp& m) {
    const Value in = tp.sequence ? tp::gather_rows(t, x, *tp.group) : tp::enter(t, x, *tp.group);
    const Value out = plain(t, in, m);
    return tp.sequence ? tp::scatter_rows(t, out, *tp.group) : tp::leave(t, out, *tp.group);
  };
}

struct Outcome {
  Tensor y, dx;
  std::vector<Tensor> gradients;
};

Outcome run(Lab& lab, const Forward& f, const Tensor& x, const Tensor& dy, const Mlp& m,
            Replay::Weights weights = Replay::Weights::at_once) {
  Trial trial(lab);
  const Value leaf = trial.tape.leaf(x), y = f(trial.tape, leaf, m);
  Outcome out{y.data, trial.gradient_of(leaf, {{y, dy}}, weights), {}};
  for (Parameter* p : m.all()) {
    EXPECT_TRUE(p->has_gradient()) << p->name();
    out.gradients.push_back(copy_of(p->gradient()));
  }
  return out;
}

void expect_same_bits(const Outcome& expected, const Outcome& actual) {
  expect_bitwise(expected.y, actual.y);
  expect_bitwise(expected.dx, actual.dx);
  ASSERT_EQ(expected.gradients.size(), actual.gradients.size());
  for (size_t i = 0; i < expected.gradients.size(); ++i) expect_bitwise(expected.gradients[i], actual.gradients[i]);
}

class SplitLinear : public testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  template <class F>
  static void on_ranks(F&& f) {
    const auto [ranks, sequence] = GetParam();
    on_late_ranks(ranks, [&, sequence = sequence](TpLab& lab) { f(lab, TensorParallel{&lab.group, sequence}); });
  }
  // Returns the rows of x that this rank holds before column_linear() and after row_linear().
  static Tensor held(const TpLab& lab, const Tensor& x) { return std::get<1>(GetParam()) ? lab.own_rows(x) : x; }
};

TEST_P(SplitLinear, OutputsAndGradientsMatchOneRank) {
  on_ranks([](TpLab& lab, const TensorParallel& tp) {
    const Mlp whole = make(lab, odd, Bias::yes), pieces = pieces_of(lab, whole);
    const Tensor x = lab.randn({odd.rows, odd.inputs}), dy = lab.randn({odd.rows, odd.outputs});
    const Outcome expected = run(lab, plain, x, dy, whole);
    const Outcome actual = run(lab, fused(tp), held(lab, x), held(lab, dy), pieces);
    const double allowed = tolerance(Dtype::f64, odd.inputs * odd.hidden * odd.outputs);
    expect_close(held(lab, expected.y), actual.y, allowed);
    expect_close(held(lab, expected.dx), actual.dx, allowed);
    // The last gradient belongs to the bias, which is added after the sum. Each rank has only the contribution of its
    // rows under sequence parallelism.
    if (tp.sequence) tp.group->all_reduce(actual.gradients.back(), comm::Reduce::sum, lab.stream()).wait();
    for (size_t i = 0; i < expected.gradients.size(); ++i) {
      SCOPED_TRACE(whole.all()[i]->name());
      expect_close(TpLab::part_of(expected.gradients[i], *pieces.all()[i]), actual.gradients[i], allowed);
    }
  });
}

TEST_P(SplitLinear, EqualsItsCompositionBitForBit) {
  on_ranks([](TpLab& lab, const TensorParallel& tp) {
    const Mlp whole = make(lab, large, Bias::no), one = pieces_of(lab, whole), other = pieces_of(lab, whole);
    const Tensor x = held(lab, lab.randn({large.rows, large.inputs}));
    const Tensor dy = held(lab, lab.randn({large.rows, large.outputs}));
    expect_same_bits(run(lab, composed(tp), x, dy, one), run(lab, fused(tp), x, dy, other));
  });
}

TEST_P(SplitLinear, DelayedWeightGradientsAreBitwiseIdentical) {
  on_ranks([](TpLab& lab, const TensorParallel& tp) {
    const Mlp whole = make(lab, odd, Bias::yes), one = pieces_of(lab, whole), other = pieces_of(lab, whole);
    const Tensor x = held(lab, lab.randn({odd.rows, odd.inputs}));
    const Tensor dy = held(lab, lab.randn({odd.rows, odd.outputs}));
    expect_same_bits(run(lab, fused(tp), x, dy, one), run(lab, fused(tp), x, dy, other, Replay::Weights::delayed));
  });
}

TEST_P(SplitLinear, RecomputedEqualsKept) {
  on_ranks([](TpLab& lab, const TensorParallel& tp) {
    const Mlp whole = make(lab, odd, Bias::yes), one = pieces_of(lab, whole), other = pieces_of(lab, whole);
    const Tensor x = held(lab, lab.randn({odd.rows, odd.inputs}));
    const Tensor dy = held(lab, lab.randn({odd.rows, odd.outputs}));
    const Forward recomputed = [&](Tape& t, const Value& in, const Mlp& m) {
      return checkpoint(t, "mlp", {&in, 1}, [&](Tape& inner, std::span<const Value> v) {
        return std::vector{fused(tp)(inner, v[0], m)};
      })[0];
    };
    expect_same_bits(run(lab, fused(tp), x, dy, one), run(lab, recomputed, x, dy, other));
  });
}

// The whole numbers are small enough for exact sums in bf16, in any order.
TEST_P(SplitLinear, WholeNumbersEqualOneRankBitwiseInEveryDtype) {
  on_ranks([](TpLab& lab, const TensorParallel& tp) {
    for (const Dtype dtype : {Dtype::f64, Dtype::f32, Dtype::bf16}) {
      SCOPED_TRACE(cat(dtype));
      const auto whole_numbers = [&](const Shape& shape) -> Parameter& {
        Parameter& p = lab.parameter(shape, dtype);
        const auto& k = kernels::kernels(lab.context).pointwise;
        k.copy(lab.stream(), p.local(), lab.integers(shape, -1, 2, dtype));
        return p;
      };
      Parameter &a = whole_numbers({odd.hidden, odd.inputs}), &b = whole_numbers({odd.outputs, odd.hidden});
      Parameter &a_bias = whole_numbers({odd.hidden}), &b_bias = whole_numbers({odd.outputs});
      const Tensor x = lab.integers({odd.rows, odd.inputs}, -2, 3, dtype);
      const Tensor dy = lab.integers({odd.rows, odd.outputs}, -1, 2, dtype);

      Trial alone(lab);
      const Value leaf = alone.tape.leaf(x);
      const Value y = linear(alone.tape, linear(alone.tape, leaf, a, &a_bias), b, &b_bias);
      const Tensor dx = alone.gradient_of(leaf, {{y, dy}});

      Parameter &a_piece = lab.piece(a, 0), &b_piece = lab.piece(b, 1), &a_bias_piece = lab.piece(a_bias, 0);
      Parameter& b_bias_copy = lab.replica(b_bias);
      Trial split(lab);
      const Value own = split.tape.leaf(held(lab, x));
      const tp::Projection projection[] = {{&a_piece, &a_bias_piece}};
      const Value h = tp::column_linear(split.tape, own, projection, tp)[0];
      const Value z = tp::row_linear(split.tape, h, b_piece, &b_bias_copy, tp);
      const Tensor d_own = split.gradient_of(own, {{z, held(lab, dy)}});

      expect_bitwise(held(lab, y.data), z.data);
      expect_bitwise(held(lab, dx), d_own);
      const Tensor d_bias = copy_of(b_bias_copy.gradient());
      if (tp.sequence) tp.group->all_reduce(d_bias, comm::Reduce::sum, lab.stream()).wait();
      expect_bitwise(b_bias.gradient(), d_bias);
      for (const auto& [p, piece] : {std::pair{&a, &a_piece}, {&b, &b_piece}, {&a_bias, &a_bias_piece}})
        expect_bitwise(TpLab::part_of(p->gradient(), *piece), piece->gradient());
    }
  });
}

TEST_P(SplitLinear, UnusedOutputAddsNothing) {
  on_ranks([](TpLab& lab, const TensorParallel& tp) {
    Parameter &used = lab.parameter({odd.hidden, odd.inputs}), &idle = lab.parameter({odd.hidden, odd.inputs});
    const Tensor x = held(lab, lab.randn({odd.rows, odd.inputs}));
    Parameter &used_piece = lab.piece(used, 0), &alone = lab.piece(used, 0), &idle_piece = lab.piece(idle, 0);
    const Tensor dy = lab.randn({odd.rows, used_piece.local().dim(0)});
    const auto gradient = [&](const std::vector<tp::Projection>& projections, size_t chosen) {
      Trial trial(lab);
      const Value leaf = trial.tape.leaf(x);
      return trial.gradient_of(leaf, {{tp::column_linear(trial.tape, leaf, projections, tp)[chosen], dy}});
    };
    const Tensor expected = gradient({{&alone}}, 0);
    expect_bitwise(expected, gradient({{&idle_piece}, {&used_piece}}, 1));
    expect_bitwise(alone.gradient(), used_piece.gradient());
    EXPECT_FALSE(idle_piece.has_gradient());
  });
}

TEST_P(SplitLinear, WeightsLearnFromAConstantInput) {
  on_ranks([](TpLab& lab, const TensorParallel& tp) {
    const Mlp whole = make(lab, odd, Bias::yes), one = pieces_of(lab, whole), other = pieces_of(lab, whole);
    const Tensor x = held(lab, lab.randn({odd.rows, odd.inputs}));
    const Tensor dy = held(lab, lab.randn({odd.rows, odd.outputs}));
    const Outcome expected = run(lab, fused(tp), x, dy, one);
    Trial trial(lab);
    const Value y = fused(tp)(trial.tape, {x}, other);
    backward(trial.tape, y, dy);
    for (size_t i = 0; i < expected.gradients.size(); ++i)
      expect_bitwise(expected.gradients[i], other.all()[i]->gradient());
  });
}

TEST_P(SplitLinear, SecondMicroBatchAddsToTheGradients) {
  on_ranks([](TpLab& lab, const TensorParallel& tp) {
    const Mlp whole = make(lab, odd, Bias::yes), pieces = pieces_of(lab, whole);
    const Tensor x = held(lab, lab.randn({odd.rows, odd.inputs}));
    const Tensor dy = held(lab, lab.randn({odd.rows, odd.outputs}));
    const Outcome once = run(lab, fused(tp), x, dy, pieces), twice = run(lab, fused(tp), x, dy, pieces);
    for (size_t i = 0; i < once.gradients.size(); ++i) {
      kernels::kernels(lab.context).pointwise.scale(lab.stream(), once.gradients[i], 2);
      expect_close(once.gradients[i], twice.gradients[i], tolerance(Dtype::f64, odd.rows));
    }
  });
}

TEST_P(SplitLinear, EvaluationEqualsTrainingAndRecordsNoOp) {
  on_ranks([](TpLab& lab, const TensorParallel& tp) {
    const Mlp pieces = pieces_of(lab, make(lab, odd, Bias::yes));
    const Tensor x = held(lab, lab.randn({odd.rows, odd.inputs}));
    Trial training(lab), evaluation(lab, Tape::Mode::forget);
    const Value expected = fused(tp)(training.tape, training.tape.leaf(x), pieces);
    expect_bitwise(expected.data, fused(tp)(evaluation.tape, evaluation.tape.leaf(x), pieces).data);
    EXPECT_EQ(evaluation.tape.size(), 0u);
  });
}

TEST_P(SplitLinear, GivesZeroWeightGradientsForNoRows) {
  on_ranks([](TpLab& lab, const TensorParallel& tp) {
    const Mlp pieces = pieces_of(lab, make(lab, odd, Bias::yes));
    const Outcome got = run(lab, fused(tp), lab.randn({0, odd.inputs}), lab.randn({0, odd.outputs}), pieces);
    EXPECT_EQ(got.y.shape(), (Shape{0, odd.outputs}));
    EXPECT_EQ(got.dx.shape(), (Shape{0, odd.inputs}));
    for (const Tensor& g : got.gradients) expect_zeros(g);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, SplitLinear, testing::Combine(testing::Values(2, 3, 4), testing::Bool()),
                         [](const auto& test) {
                           return cat(std::get<0>(test.param), std::get<1>(test.param) ? "_by_rows" : "");
                         });

TEST(ColumnLinear, KeepsOnlyItsOwnRowsUnderSequenceParallelism) {
  comm::with_ranks(4, [](const ProcessGroup& group) {
    TpLab lab(group);
    Parameter& w = lab.parameter({8, 32});
    Parameter& piece = lab.piece(w, 0);
    Trial trial(lab);
    const Value x = trial.tape.leaf(copy_of(lab.own_rows(lab.randn({64, 32}))));
    const int64_t before = lab.used(Category::activation);
    const tp::Projection projection[] = {{&piece}};
    tp::column_linear(trial.tape, x, projection, {&group, true});
    group.barrier(lab.stream())
        .wait();  // after the barrier, the rank that completed an exchange has released its tensors
    EXPECT_EQ(lab.used(Category::activation) - before, x.data.bytes());
    EXPECT_EQ(lab.used(Category::communication), 0);
  });
}

TEST(SplitLinearOfOneRank, EqualsPlainLinear) {
  const comm::SelfGroup self;
  for (const bool sequence : {false, true}) {
    TpLab lab(self);
    const Mlp m = make(lab, odd, Bias::yes);
    const Tensor x = lab.randn({odd.rows, odd.inputs}), dy = lab.randn({odd.rows, odd.outputs});
    const Outcome expected = run(lab, plain, x, dy, m);
    for (Parameter* p : m.all()) p->clear_gradient();
    expect_same_bits(expected, run(lab, fused({&self, sequence}), x, dy, m));
    Trial one(lab), other(lab);
    plain(one.tape, one.tape.leaf(x), m);
    fused({&self, sequence})(other.tape, other.tape.leaf(x), m);
    EXPECT_EQ(one.tape.size(), other.tape.size());
  }
}

TEST(SplitLinearErrors, NameTheParameterAndTheShapes) {
  comm::with_ranks(2, [](const ProcessGroup& group) {
    TpLab lab(group);
    Parameter& w = lab.parameter({4, 3});
    Trial trial(lab);
    const Value x = trial.tape.leaf(lab.randn({5, 2})), odd_rows = trial.tape.leaf(lab.randn({5, 3}));
    const tp::Projection projection[] = {{&w}};
    EXPECT_EQ(error_of([&] { tp::column_linear(trial.tape, x, projection, {&group}); }),
              "[column_linear] x is [5, 2] but p0 is [4, 3]; expected [T, D] and [..., D]");
    EXPECT_EQ(error_of([&] { tp::row_linear(trial.tape, x, w, nullptr, {&group}); }),
              "[row_linear] x is [5, 2] but p0 is [4, 3]; expected [T, D] and [N, D]");
    EXPECT_EQ(error_of([&] {
                tp::row_linear(trial.tape, odd_rows, w, nullptr, {&group, true});
              }),
              "[row_linear] 5 rows cannot be divided evenly among the 2 ranks of world: 5 = 2 * 2 + 1; nearest: 4, 6");
  });
}

}  // namespace
}  // namespace hexad::tests
