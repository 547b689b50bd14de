// RMS norms over the heads of all ranks, compared with plain norms of all columns.
#include "parallel/tp/split_norm.h"

#include "parallel/comm/gathered_rows.h"
#include "tests/support/gradcheck.h"
#include "tests/tp/tp_lab.h"

namespace hexad::tests {

using namespace autograd;
using namespace base;
namespace {

constexpr int64_t rows = 5, of_head = 3;
constexpr double eps = 0.25;  // large, so that its effect on the gradients is visible

// Rows of all heads, their gain, and the largest number of pieces into which the columns and the gain can be divided.
struct Heads {
  Tensor x;
  Parameter* gain;
  int64_t pieces;

  Heads(TpLab& lab, int64_t heads)
      : x(lab.randn({rows, heads * of_head})), gain(&lab.parameter({heads * of_head})), pieces(heads) {}

  int64_t parts(const ProcessGroup& group) const { return std::min<int64_t>(pieces, group.size()); }
  /// Returns a new parameter: this rank's piece of the gain. Several ranks hold the same piece if there are fewer
  /// pieces than ranks.
  Parameter& own_gain(TpLab& lab) const {
    const auto count = static_cast<int>(parts(lab.group));
    Parameter& own = lab.parameters.add(
        {.name = cat("own ", lab.parameters.size()),
         .global_shape = gain->global_shape(),
         .placement = {.shards = {{Axis::tp, 0, count, lab.group.rank() * count / lab.group.size()}}},
         .dtype = Dtype::f64,
         .init = {}});
    kernels::kernels(lab.context).pointwise.copy(lab.stream(), own.local(), TpLab::part_of(gain->local(), own));
    return own;
  }
  /// Returns this rank's columns of a tensor in the shape of x.
  Tensor own(const Tensor& whole, const ProcessGroup& group) const {
    const int64_t count = parts(group), part = group.rank() * count / group.size(), width = whole.dim(1) / count;
    const Tensor out = Tensor::empty({whole.dim(0), width}, whole.dtype(), whole.device());
    kernels::kernels(whole.device())
        .pointwise.copy(whole.device().context().compute(), out, whole.slice(1, part * width, (part + 1) * width));
    return out;
  }
  /// Returns the sum of `addend` over the ranks that have this rank's columns.
  Tensor sum(TpLab& lab, const Tensor& addend) const {
    const int64_t count = parts(lab.group), sharers = lab.group.size() / count;
    const Tensor all = comm::all_gather_rows(addend, lab.group, lab.stream(), Category::temporary);
    const int64_t first = lab.group.rank() / sharers * sharers, height = addend.dim(0);
    Tensor total = Tensor::zeros(addend.shape(), addend.dtype(), lab.context);
    for (int64_t r = first; r < first + sharers; ++r)
      kernels::kernels(lab.context)
          .pointwise.add(lab.stream(), total, total, all.slice(0, r * height, (r + 1) * height));
    return total;
  }
};

class SplitNorm : public testing::TestWithParam<int> {};

// Two of 4 ranks hold each of the two key heads. Each of these two ranks has an addend of the gradient.
TEST_P(SplitNorm, EqualsTheNormOfAllColumns) {
  on_late_ranks(GetParam(), [](TpLab& lab) {
    const Heads q(lab, 4), k(lab, 2);
    Parameter &q_gain = q.own_gain(lab), &k_gain = k.own_gain(lab);
    Lab other(77 + static_cast<uint64_t>(lab.group.rank()));
    const Tensor dq = q.own(lab.randn(q.x.shape()), lab.group), dk = other.randn(k.own(k.x, lab.group).shape());

    Trial split(lab);
    const Value own_q = split.tape.leaf(q.own(q.x, lab.group)), own_k = split.tape.leaf(k.own(k.x, lab.group));
    const tp::NormedHeads y = tp::split_rms_norms(split.tape, own_q, q_gain, own_k, k_gain, eps, lab.group);
    Replay backward(split.tape,
                    std::vector<Replay::Root>{{y.q, dq}, {y.k, lab.values(dk.to_vector<double>(), dk.shape())}});
    backward.run();

    // Returns the gradient of all columns, joined from the ranks' pieces.
    const auto whole = [&](const Heads& h, const Tensor& own_gradient) {
      const int64_t count = h.parts(lab.group), sharers = lab.group.size() / count;
      const Tensor all = comm::all_gather_rows(own_gradient, lab.group, lab.stream(), Category::temporary);
      const Tensor out = Tensor::empty(h.x.shape(), Dtype::f64, lab.context);
      const int64_t width = own_gradient.dim(1);
      for (int64_t part = 0; part < count; ++part)
        kernels::kernels(lab.context)
            .pointwise.copy(lab.stream(), out.slice(1, part * width, (part + 1) * width),
                            all.slice(0, part * sharers * rows, (part * sharers + 1) * rows));
      return out;
    };
    const auto check = [&](const Heads& h, Parameter& own_gain, const Value& own_y, const Tensor& own_dy,
                           const Tensor& own_dx) {
      Trial alone(lab);
      const Value x = alone.tape.leaf(h.x), expected = rms_norm(alone.tape, x, *h.gain, eps);
      const Tensor dx = alone.gradient_of(x, {{expected, whole(h, h.sum(lab, own_dy))}});
      const double allowed = tolerance(Dtype::f64, 100);
      expect_close(h.own(expected.data, lab.group), own_y.data, allowed);
      expect_close(h.own(dx, lab.group), h.sum(lab, own_dx), allowed);
      const Tensor dgain = own_gain.gradient().reshape({1, -1});
      expect_close(TpLab::part_of(h.gain->gradient(), own_gain).reshape({1, -1}), h.sum(lab, dgain), allowed);
    };
    check(q, q_gain, y.q, dq, backward.take_gradient(own_q));
    check(k, k_gain, y.k, lab.values(dk.to_vector<double>(), dk.shape()), backward.take_gradient(own_k));
  });
}

TEST_P(SplitNorm, QueriesHaveAGradientIfKeysHaveNone) {
  on_late_ranks(GetParam(), [](TpLab& lab) {
    const Heads q(lab, 4), k(lab, 2);
    Parameter &q_gain = q.own_gain(lab), &k_gain = k.own_gain(lab);
    const Tensor dq = lab.randn(q.x.shape());
    Trial split(lab), alone(lab);
    const Value own_q = split.tape.leaf(q.own(q.x, lab.group)), own_k = split.tape.leaf(k.own(k.x, lab.group));
    const tp::NormedHeads y = tp::split_rms_norms(split.tape, own_q, q_gain, own_k, k_gain, eps, lab.group);
    Replay backward(split.tape, std::vector<Replay::Root>{{y.q, q.own(dq, lab.group)}});
    backward.run();
    EXPECT_FALSE(backward.take_gradient(own_k).defined());
    EXPECT_FALSE(k_gain.has_gradient());
    const Value x = alone.tape.leaf(q.x);
    const Tensor dx = alone.gradient_of(x, {{rms_norm(alone.tape, x, *q.gain, eps), dq}});
    expect_close(q.own(dx, lab.group), backward.take_gradient(own_q), tolerance(Dtype::f64, 100));
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, SplitNorm, testing::Values(2, 4), testing::PrintToStringParamName());

TEST(SplitNormOfOneRank, IsTwoPlainNorms) {
  const comm::SelfGroup self;
  TpLab lab(self);
  const Heads q(lab, 4), k(lab, 2);
  gradcheck(lab, {q.x, k.x}, [&](Tape& t, const std::vector<Value>& x) {
    const tp::NormedHeads y = tp::split_rms_norms(t, x[0], *q.gain, x[1], *k.gain, eps, self);
    return std::vector<Value>{y.q, y.k};
  });
  Trial trial(lab);
  const Value one = trial.tape.leaf(q.x), two = trial.tape.leaf(k.x);
  const tp::NormedHeads y = tp::split_rms_norms(trial.tape, one, *q.gain, two, *k.gain, eps, self);
  expect_bitwise(rms_norm(trial.tape, one, *q.gain, eps).data, y.q.data);
  expect_bitwise(rms_norm(trial.tape, two, *k.gain, eps).data, y.k.data);
}

}  // namespace
}  // namespace hexad::tests
