// Tests of regions in which ranks hold either equal values or different parts of the values. Also tests the gradients
// of these regions. Values are whole numbers, so sums are exact.
#include "parallel/tp/regions.h"

#include "tests/tp/tp_lab.h"

namespace hexad::tests {

using namespace autograd;
namespace {

using Region = Value (*)(Tape&, const Value&, const ProcessGroup&);
constexpr int64_t width = 5;

// Returns random numbers of rank `rank`. They are the same on every rank that draws them.
Tensor of_rank(int rank, int64_t rows, Lab& lab) {
  Lab other(1000 + static_cast<uint64_t>(rank));
  const Tensor drawn = other.integers({rows, width}, -50, 51);
  return lab.values(drawn.to_vector<double>(), drawn.shape());
}

Tensor sum_of_ranks(int ranks, int64_t rows, Lab& lab) {
  Tensor sum = of_rank(0, rows, lab);
  for (int r = 1; r < ranks; ++r)
    kernels::kernels(lab.context).pointwise.add(lab.stream(), sum, sum, of_rank(r, rows, lab));
  return sum;
}

Tensor stack_of_ranks(int ranks, int64_t rows, Lab& lab) {
  Tensor all = Tensor::empty({ranks * rows, width}, Dtype::f64, lab.context);
  for (int r = 0; r < ranks; ++r)
    kernels::kernels(lab.context)
        .pointwise.copy(lab.stream(), all.slice(0, r * rows, (r + 1) * rows), of_rank(r, rows, lab));
  return all;
}

class Regions : public testing::TestWithParam<int> {
 protected:
  // Result of one op on this rank's x with this rank's gradient.
  struct Outcome {
    Tensor y, dx;
  };
  static Outcome run(TpLab& lab, Region op, const Tensor& x, const Tensor& dy) {
    Trial trial(lab);
    const Value leaf = trial.tape.leaf(x), y = op(trial.tape, leaf, lab.group);
    return {y.data, trial.gradient_of(leaf, {{y, dy}})};
  }
  template <class F>
  static void on_ranks(F&& f) {
    comm::with_ranks(GetParam(), [&](const ProcessGroup& group) {
      TpLab lab(group);
      f(lab, group.rank());
    });
  }
  static constexpr int64_t share = 3;
  static int ranks() { return GetParam(); }
  static int64_t rows() { return share * GetParam(); }
};

TEST_P(Regions, EnterKeepsTheInputAndSumsTheGradients) {
  on_ranks([](TpLab& lab, int rank) {
    const Tensor x = lab.integers({rows(), width}, -9, 10), dy = of_rank(rank, rows(), lab), given = copy_of(dy);
    const Outcome got = run(lab, tp::enter, x, dy);
    EXPECT_EQ(got.y.address(), x.address());
    expect_bitwise(sum_of_ranks(ranks(), rows(), lab), got.dx);
    expect_bitwise(given, dy);  // the caller's gradient remains unchanged
  });
}

TEST_P(Regions, LeaveSumsTheInputsAndKeepsTheGradient) {
  on_ranks([](TpLab& lab, int rank) {
    const Tensor x = of_rank(rank, rows(), lab), given = copy_of(x), dy = lab.integers({rows(), width}, -9, 10);
    const Outcome got = run(lab, tp::leave, x, dy);
    expect_bitwise(sum_of_ranks(ranks(), rows(), lab), got.y);
    expect_bitwise(dy, got.dx);
    expect_bitwise(given, x);
  });
}

TEST_P(Regions, GatherRowsStacksTheInputsAndKeepsOwnRowsOfTheSumOfGradients) {
  on_ranks([](TpLab& lab, int rank) {
    const Outcome got = run(lab, tp::gather_rows, of_rank(rank, share, lab), of_rank(rank, rows(), lab));
    expect_bitwise(stack_of_ranks(ranks(), share, lab), got.y);
    expect_bitwise(lab.own_rows(sum_of_ranks(ranks(), rows(), lab)), got.dx);
  });
}

TEST_P(Regions, ScatterRowsKeepsOwnRowsOfTheSumAndStacksTheGradients) {
  on_ranks([](TpLab& lab, int rank) {
    const Outcome got = run(lab, tp::scatter_rows, of_rank(rank, rows(), lab), of_rank(rank, share, lab));
    expect_bitwise(lab.own_rows(sum_of_ranks(ranks(), rows(), lab)), got.y);
    expect_bitwise(stack_of_ranks(ranks(), share, lab), got.dx);
  });
}

TEST_P(Regions, CollectRowsStacksTheInputsAndKeepsOwnRowsOfTheGradient) {
  on_ranks([](TpLab& lab, int rank) {
    const Tensor dy = lab.integers({rows(), width}, -9, 10);
    const Outcome got = run(lab, tp::collect_rows, of_rank(rank, share, lab), dy);
    expect_bitwise(stack_of_ranks(ranks(), share, lab), got.y);
    expect_bitwise(lab.own_rows(dy), got.dx);
  });
}

// add() passes the same gradient tensor to both inputs. A sum in place would count this gradient twice.
TEST_P(Regions, EnterSumsASharedGradientOnlyOnce) {
  on_ranks([](TpLab& lab, int rank) {
    Trial trial(lab);
    const Value x = trial.tape.leaf(lab.integers({rows(), width}, -9, 10));
    const Value y = add(trial.tape, tp::enter(trial.tape, x, lab.group), tp::enter(trial.tape, x, lab.group));
    const Tensor sum = sum_of_ranks(ranks(), rows(), lab);
    kernels::kernels(lab.context).pointwise.scale(lab.stream(), sum, 2);
    expect_bitwise(sum, trial.gradient_of(x, {{y, of_rank(rank, rows(), lab)}}));
  });
}

TEST_P(Regions, ActivationsOfSeveralDimensionsAreCutInRows) {
  on_ranks([](TpLab& lab, int) {
    Trial trial(lab);
    const Tensor x = lab.integers({rows(), 2, 3}, -9, 10);
    const Value leaf = trial.tape.leaf(x), own = tp::scatter_rows(trial.tape, leaf, lab.group);
    EXPECT_EQ(own.shape(), (Shape{share, 2, 3}));
    const Value back = tp::collect_rows(trial.tape, own, lab.group);
    const Tensor sum = copy_of(x);
    kernels::kernels(lab.context).pointwise.scale(lab.stream(), sum, ranks());
    expect_bitwise(sum, back.data);
    expect_bitwise(x, trial.gradient_of(leaf, {{back, x}}));
  });
}

TEST_P(Regions, AcceptZeroRows) {
  on_ranks([](TpLab& lab, int) {
    const Tensor none = Tensor::empty({0, width}, Dtype::f64, lab.context);
    for (Region op : {tp::enter, tp::leave, tp::gather_rows, tp::scatter_rows, tp::collect_rows}) {
      const Outcome got = run(lab, op, none, none);
      EXPECT_EQ(got.y.shape(), none.shape());
      EXPECT_EQ(got.dx.shape(), none.shape());
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Regions, testing::Values(2, 3, 4), testing::PrintToStringParamName());

TEST(RegionsOfOneRank, AddNoNodeAndNoCopy) {
  const comm::SelfGroup self;
  TpLab lab(self);
  Trial trial(lab);
  const Value x = trial.tape.leaf(lab.randn({3, width}));
  for (Region op : {tp::enter, tp::leave, tp::gather_rows, tp::scatter_rows, tp::collect_rows}) {
    const Value y = op(trial.tape, x, self);
    EXPECT_EQ(y.id, x.id);
    EXPECT_EQ(y.data.address(), x.data.address());
  }
  EXPECT_EQ(trial.tape.size(), 0u);
}

TEST(RowsThatCannotBeCutEvenly, AreRefusedWithTheArithmetic) {
  comm::with_ranks(2, [](const ProcessGroup& group) {
    TpLab lab(group);
    Trial trial(lab);
    const Value x = trial.tape.leaf(lab.randn({7, width}));
    EXPECT_EQ(
        error_of([&] { tp::scatter_rows(trial.tape, x, group); }),
        "[scatter_rows] 7 rows cannot be divided evenly among the 2 ranks of world: 7 = 3 * 2 + 1; nearest: 6, 8");
  });
}

}  // namespace
}  // namespace hexad::tests
