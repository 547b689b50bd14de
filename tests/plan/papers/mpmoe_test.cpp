#include "tools/plan/papers/mpmoe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "framework/base/tolerance.h"

namespace hexad::plan::mpmoe {
namespace {

const double rounding = base::tolerance(base::Dtype::f64, 64);

/// Returns MoE-GPT-XL of table 3 with B tokens.
Layer gpt_xl(double B) { return {.M = 2048, .H = 8192, .B = B, .E = 64}; }

TEST(Mpmoe, MemoryMatchesEquations1To4) {
  const Layer l{.M = 10, .H = 40, .B = 7, .E = 3};
  EXPECT_EQ(model_states(l), 4 * (3 * 10 + 2 * 40 * 10));
  EXPECT_EQ(activations(l), 4 * 7 * 10 + 7 * 40);
  EXPECT_EQ(sequential_buffers(l), 7 * 10 + 7 * 40);
  EXPECT_EQ(pipeline_buffers(l), activations(l));
}

TEST(Mpmoe, SavingsOf2And4And8MicroBatchesHaveTheRatios1To2To2AndAHalf) {
  const Layer l = gpt_xl(4096);
  const double two = saved(l, 2);
  EXPECT_EQ(saved(l, 4) / two, 2);
  EXPECT_EQ(saved(l, 8) / two, 2.5);
  EXPECT_EQ(saving_ratio(l, 4) / saving_ratio(l, 2), 2);
  EXPECT_EQ(saved(l, 1), 0);
}

TEST(Mpmoe, SavingsApproachTheirBoundWithLargeBatches) {
  // Equation 6 gives savings of 1/4, 1/2 and 5/8 for H = 4 * M without model states.
  EXPECT_NEAR(saving_ratio(gpt_xl(1e9), 2), 0.25, 1e-3);
  EXPECT_NEAR(saving_ratio(gpt_xl(1e9), 4), 0.5, 1e-3);
  EXPECT_NEAR(saving_ratio(gpt_xl(1e9), 8), 0.625, 1e-3);
  // The paper's averages (23, 34, 38%) are below these bounds.
  EXPECT_LT(saving_ratio(gpt_xl(256), 8), saving_ratio(gpt_xl(16384), 8));
}

TEST(Mpmoe, TwoBuffersOfTdiAndTdoAndOneOfTmRemain) {
  for (const double k : {1.0, 2.0})
    for (const int64_t n : {2, 4, 8}) {
      Layer l = gpt_xl(4096);
      l.k = k;
      const double B = l.B, M = l.M, H = l.H;
      EXPECT_NEAR(shared_buffers(l, n), 2 * (2 * B * M + k * (4 * B * M + B * H) / static_cast<double>(n)),
                  rounding * shared_buffers(l, n));
    }
  EXPECT_EQ(outputs_by_slot({.M = 3, .H = 4, .B = 5, .k = 2}), 30);
}

TEST(Mpmoe, OverlapIsWorthwhileAboveHalfTheSpeedOnBothSides) {
  EXPECT_TRUE(overlap_pays({.comm_comp = 0.51, .comp_comm = 0.9}));
  EXPECT_FALSE(overlap_pays({.comm_comp = 0.5, .comp_comm = 1}));
  EXPECT_FALSE(overlap_pays({.comm_comp = 1, .comp_comm = 0.4}));
}

TEST(Mpmoe, PhaseIsAsLongAsItsSlowestStream) {
  const Slowdowns a{
      .comm_comp = 0.8, .comm_mem = 0.5, .comm_all = 0.4, .comp_comm = 0.9, .comp_all = 0.85, .mem_comm = 0.25};
  EXPECT_DOUBLE_EQ(phase_seconds({.comm = 1}, a), 1);  // a single operation is not slowed down
  EXPECT_DOUBLE_EQ(phase_seconds({.comm = 4, .comp = 1}, a), 5);
  EXPECT_DOUBLE_EQ(phase_seconds({.comm = 1, .comp = 9}, a), 10);
  EXPECT_DOUBLE_EQ(phase_seconds({.comm = 1, .mem = 1}, a), 4);
  EXPECT_DOUBLE_EQ(phase_seconds({.comm = 1, .comp = 1, .mem = 1}, a), 2.5);
}

TEST(Mpmoe, P2OfParadigm1MatchesThePaper) {
  // The slowed operations take max((tS + tR)/alpha(comm, comp), tC/alpha(comp, comm)), n - 2 = 6 times here.
  const Slowdowns a{.comm_comp = 0.8, .comp_comm = 0.9};
  EXPECT_DOUBLE_EQ(phases(Paradigm::no_copies, {.S = 3, .C = 2, .R = 1}, 8, a).p2, 6 * 4 / 0.8);
  EXPECT_DOUBLE_EQ(phases(Paradigm::no_copies, {.S = 3, .C = 9, .R = 1}, 8, a).p2, 6 * 9 / 0.9);
}

/// Simulates the same pipeline without phases. Three streams run in order, and nothing is slowed down. Each operation
/// starts once its stream and its inputs are ready.
double free_flow(Paradigm paradigm, const Operations& o, size_t n) {
  std::vector<double> sent(n), computed(n), copied(n);
  double comm = 0, comp = 0, mem = 0;
  const auto run = [](double& stream, double ready, double seconds) {
    return stream = std::max(stream, ready) + seconds;
  };
  if (paradigm == Paradigm::copies_before)
    for (size_t i = 0; i < n; ++i) copied[i] = run(mem, 0, o.M);
  const auto send = [&](size_t i) { sent[i] = run(comm, 0, o.S); };
  send(0);
  for (size_t i = 0; i < n; ++i) {
    computed[i] = run(comp, std::max(sent[i], copied[i]), o.C);
    if (i + 1 < n) send(i + 1);
    run(comm, computed[i], o.R);
    if (paradigm == Paradigm::copies_after) run(mem, computed[i], o.M);
  }
  return std::max({comm, comp, mem});
}

TEST(Mpmoe, PhasesAreExactIfOneStreamIsTheBottleneck) {
  const Operations communication{.S = 5, .C = 2, .R = 4}, computation{.S = 1, .C = 7, .R = 2};
  for (const Paradigm paradigm : {Paradigm::no_copies, Paradigm::copies_after, Paradigm::copies_before})
    for (Operations o : {communication, computation})
      for (const int64_t n : {1, 2, 3, 8}) {
        if (paradigm != Paradigm::no_copies) o.M = 1;
        EXPECT_DOUBLE_EQ(phases(paradigm, o, n, {}).seconds(), free_flow(paradigm, o, n))
            << "n = " << n << ", C = " << o.C;
      }
}

TEST(Mpmoe, PhasesAreNeverFasterThanTheStreams) {
  for (const Paradigm paradigm : {Paradigm::no_copies, Paradigm::copies_after, Paradigm::copies_before})
    for (const double C : {0.5, 1.5, 3.0, 6.0})
      for (const double M : {0.5, 2.0, 8.0})
        for (const int64_t n : {1, 2, 5}) {
          const Operations o{.S = 2, .C = C, .R = 1, .M = paradigm == Paradigm::no_copies ? 0 : M};
          const double flow = free_flow(paradigm, o, n);
          EXPECT_GE(phases(paradigm, o, n, {}).seconds(), flow * (1 - rounding));
          EXPECT_LE(phases(paradigm, o, n, {}).seconds(), 1.25 * flow) << C << " " << M << " " << n;
        }
}

TEST(Mpmoe, ReuseCostsMatchTable2) {
  const Layer l{.M = 10, .H = 40, .B = 7, .k = 2};
  const double input = 2 * 7 * 10, activations = 2 * 7 * 40, again = 2.0 * 2 * 7 * 10 * 40;
  const auto check = [&](Reuse r, double copied, double communicated, double recomputed) {
    const ReuseCost cost = reuse_cost(l, r);
    EXPECT_EQ(cost.copied, copied) << name_of(r);
    EXPECT_EQ(cost.communicated, communicated) << name_of(r);
    EXPECT_EQ(cost.recomputed, recomputed) << name_of(r);
  };
  check(Reuse::none, 0, 0, 0);
  check(Reuse::s1, input + activations, 0, 0);
  check(Reuse::s2, activations, input, 0);
  check(Reuse::s3, input, 0, again);
  check(Reuse::s4, 0, input, again);
}

/// Returns a machine whose speeds are half of the peak at a certain volume. Small chunks are therefore slow.
Machine machine(double comm, double comp, double mem) {
  const auto with_latency = [](double peak, double half) {
    std::vector<config::Curve::Point> points;
    for (double v = half / 64; v <= half * 4096; v *= 2) points.push_back({v, peak * v / (v + half)});
    return config::Curve(points);
  };
  return {.W_comm = with_latency(comm, 1e5),
          .W_comp = with_latency(comp, 1e9),
          .W_mem = with_latency(mem, 1e5),
          .alpha = {}};
}

TEST(Mpmoe, RecomputingIsFasterThanOffloadingIfCopiesSlowTheCommunication) {
  // Section 5.5.3: recomputing is better if communication is slow and slowed by copies. Offloading is better if
  // computation is the bottleneck.
  Machine slow_network = machine(1e9, 300e12, 10e9), fast_network = machine(200e9, 30e12, 100e9);
  slow_network.alpha = {.comm_mem = 0.6, .comm_all = 0.5};
  const Layer l = gpt_xl(8192);
  const auto time = [&](const Machine& m, Reuse r) { return predict(l, m, r, 4).seconds(); };
  EXPECT_LT(time(slow_network, Reuse::s3), time(slow_network, Reuse::s2));
  EXPECT_LT(time(slow_network, Reuse::s4), time(slow_network, Reuse::s2));
  EXPECT_LT(time(fast_network, Reuse::s1), time(fast_network, Reuse::s4));
}

TEST(Mpmoe, LargerBatchesHaveMoreMicroBatches) {
  // Figure 14 has 2 micro-batches below 8k tokens, 4 up to 22k tokens, and 8 above. The exact thresholds depend on the
  // machine.
  const Machine m = machine(5e9, 100e12, 20e9);
  int64_t last = 1;
  for (const double B : {64.0, 1024.0, 16384.0, 65536.0}) {
    int64_t best = 1;
    for (const int64_t n : {2, 4, 8})
      if (predict(gpt_xl(B), m, Reuse::none, n).seconds() < predict(gpt_xl(B), m, Reuse::none, best).seconds())
        best = n;
    EXPECT_GE(best, last) << B;
    last = best;
  }
  EXPECT_EQ(last, 8);
}

TEST(Mpmoe, PredictedTimesExceedTheIdealTime) {
  for (const double comm : {1e9, 5e9, 100e9}) {
    const Machine m = machine(comm, 100e12, 20e9);
    const Layer l = gpt_xl(8192);
    const Ideal bound = ideal(l, m);
    const double sequential = predict(l, m, Reuse::none, 1).seconds();
    EXPECT_NEAR(sequential, bound.comm + bound.comp, rounding * sequential);
    EXPECT_LE(bound.largest_speedup(), 2);
    for (const int64_t n : {2, 4, 8, 64}) EXPECT_GT(predict(l, m, Reuse::none, n).seconds(), bound.seconds());
  }
}

}  // namespace
}  // namespace hexad::plan::mpmoe
