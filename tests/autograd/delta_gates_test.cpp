// Gates of delta nets and of gated attention, and norms whose weights are zero-centred.
#include <gtest/gtest.h>

#include <cmath>

#include "framework/autograd/ops/ops.h"
#include "tests/support/gradcheck.h"

namespace hexad::tests {

using namespace autograd;
namespace {

using Inputs = const std::vector<Value>&;

TEST(DeltaGates, GradientsMatchFiniteDifferences) {
  Lab lab;
  Parameter &log_rate = lab.parameter({3}), &shift = lab.parameter({3});
  gradcheck(lab, {lab.randn({5, 3}), lab.randn({5, 3})}, [&](Tape& t, Inputs x) {
    const DeltaGates gates = delta_gates(t, x[0], x[1], log_rate, shift);
    return std::vector<Value>{gates.log_decay, gates.strength};
  });
}

TEST(DeltaGates, MatchTheFormulasForZeroInputs) {
  Lab lab;
  Parameter &log_rate = lab.parameter({2}), &shift = lab.parameter({2});
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy, Tape::Mode::forget);
  const Value zeros{lab.values<double>({0, 0}, {1, 2})};
  const DeltaGates gates = delta_gates(tape, zeros, zeros, log_rate, shift);
  const auto rates = values_of(log_rate.local()), shifts = values_of(shift.local());
  for (size_t h = 0; h < 2; ++h)
    EXPECT_NEAR(values_of(gates.log_decay.data)[h], -std::exp(rates[h]) * std::log1p(std::exp(shifts[h])), 1e-12);
  EXPECT_EQ(values_of(gates.strength.data), (std::vector<double>{0.5, 0.5}));
}

TEST(GateElements, GradientsMatchFiniteDifferences) {
  Lab lab;
  gradcheck(lab, {lab.randn({3, 5}), lab.randn({3, 5})},
            [](Tape& t, Inputs x) { return gate_elements(t, x[0], x[1]); });
}

TEST(GateElements, MultipliesByTheSigmoid) {
  Lab lab;
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy, Tape::Mode::forget);
  const Value x{lab.values<double>({3, 5, 7}, {1, 3})}, logits{lab.values<double>({0, 1000, -1000}, {1, 3})};
  EXPECT_EQ(values_of(gate_elements(tape, x, logits).data), (std::vector<double>{1.5, 5, 0}));
}

TEST(SiluGate, GradientsMatchFiniteDifferences) {
  Lab lab;
  gradcheck(lab, {lab.randn({3, 2, 5}), lab.randn({3, 2, 5})},
            [](Tape& t, Inputs x) { return silu_gate(t, x[0], x[1]); });
}

TEST(ZeroCentredRmsNorm, GradientsMatchFiniteDifferences) {
  Lab lab;
  Parameter& gain = lab.parameter({7});
  gradcheck(lab, {lab.randn({3, 7})}, [&](Tape& t, Inputs x) { return rms_norm(t, x[0], gain, 1e-5, 1); });
  gradcheck(lab, {lab.randn({3, 7}), lab.randn({3, 7})}, [&](Tape& t, Inputs x) {
    const SumAndNorm y = add_rms_norm(t, x[0], x[1], gain, 1e-5, 1);
    return std::vector<Value>{y.sum, y.normed};
  });
}

TEST(ZeroCentredRmsNorm, GainIsOneMoreThanTheWeight) {
  Lab lab;
  Parameter& gain = lab.parameter({2});
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy, Tape::Mode::forget);
  const Value x{lab.values<double>({3, 4}, {1, 2})};
  const auto plain = values_of(rms_norm(tape, x, gain, 1e-5).data),
             centred = values_of(rms_norm(tape, x, gain, 1e-5, 1).data), weights = values_of(gain.local());
  for (size_t i = 0; i < 2; ++i) EXPECT_NEAR(centred[i], plain[i] / weights[i] * (1 + weights[i]), 1e-12);
}

}  // namespace
}  // namespace hexad::tests
