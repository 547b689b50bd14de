// Parity cases of delta nets: causal convolutions, gates, and the gated delta rule.
#include <cmath>

#include "tests/kernels/cases.h"

namespace hexad::tests {

using namespace kernels;
namespace {

using K = const KernelTable&;
constexpr int64_t sequences = 2, taps = 4, key_heads = 2, heads = 4;

// Returns the number of rows of each of the two sequences. The number is at most 70, because the reference is slow. A
// number above 64 exceeds the rows of a chunk on the CPU.
int64_t length(const Trial& r) { return std::min<int64_t>(r.size.rows, 70); }
int64_t head_size(const Trial& r) { return std::min<int64_t>(r.size.width, 9); }

// Returns the first position of each row's document, for sequences whose rows begin at position `begin`. Documents have
// five rows. The first document begins at `begin` - 2.
Tensor documents(Trial& r, int64_t begin) {
  std::vector<int32_t> first;
  for (int64_t b = 0; b < sequences; ++b)
    for (int64_t i = 0; i < length(r); ++i) first.push_back(static_cast<int32_t>(begin - 2 + (i + 2) / 5 * 5));
  return r.values<int32_t>(first, {sequences * length(r)});
}

enum class Past : uint8_t { none, rows, documents };

CausalConvOperands conv_operands(Trial& r, Past past) {
  const int64_t width = std::min<int64_t>(r.size.width, 70);
  CausalConvOperands o{.x = r.normal({sequences * length(r), width}), .weight = r.normal({width, taps})};
  if (past != Past::none) o.before = r.normal({sequences, taps - 1, width});
  if (past == Past::documents) o.first = documents(r, 3);
  return o;
}

constexpr SequenceRows from_third{.sequences = sequences, .begin = 3};

void conv_forward(K k, Trial& r, Past past) {
  if (r.size.rows == 0) return;
  const CausalConvOperands o = conv_operands(r, past);
  k.causal_conv.forward(r.stream, r.output(o.x.shape(), taps), o, from_third);
}

void conv_backward(K k, Trial& r, Past past) {
  if (r.size.rows == 0) return;
  const CausalConvOperands o = conv_operands(r, past);
  const Tensor dout = r.normal(o.x.shape());
  CausalConvGradients g{.dx = r.output(o.x.shape(), 2 * taps * taps),
                        .dweight = r.update(o.weight.shape(), r.acc(), sequences * length(r) * taps)};
  if (o.before.defined()) g.dbefore = r.output(o.before.shape(), 2 * taps * taps);
  k.causal_conv.backward(r.stream, g, dout, o, from_third);
}

DeltaGateOperands gate_operands(Trial& r) {
  const Shape shape{r.size.rows, r.size.width};
  return {.decay = r.normal(shape),
          .write = r.normal(shape),
          .log_rate = r.normal({r.size.width}, r.acc()),
          .shift = r.normal({r.size.width}, r.acc())};
}

void gate_forward(K k, Trial& r) {
  const Shape shape{r.size.rows, r.size.width};
  const DeltaGateOperands o = gate_operands(r);
  k.delta_gate.forward(r.stream, r.output(shape, r.acc(), 4), r.output(shape, r.acc(), 4), o);
}

void gate_backward(K k, Trial& r) {
  const Shape shape{r.size.rows, r.size.width};
  const DeltaGateOperands o = gate_operands(r);
  const Tensor dlog_decay = r.normal(shape, r.acc()), dstrength = r.normal(shape, r.acc());
  k.delta_gate.backward(r.stream,
                        {.ddecay = r.output(shape, 4),
                         .dwrite = r.output(shape, 4),
                         .rates = r.output(shape, r.acc(), 4),
                         .shifts = r.output(shape, r.acc(), 4)},
                        dlog_decay, dstrength, o);
}

// Returns a tensor of f(x) for standard normal numbers x.
Tensor mapped(Trial& r, const Shape& shape, double (*f)(double)) {
  const Tensor t = r.normal(shape, r.acc());
  reference::Array a = reference::load(t);
  for (double& x : a.values) x = f(x);
  reference::store(t, a);
  return t;
}

Shape states(const Trial& r) { return {sequences, heads, head_size(r), head_size(r) + 2}; }

DeltaRuleOperands rule_operands(Trial& r, Past past) {
  const int64_t tokens = sequences * length(r), size = head_size(r);
  DeltaRuleOperands o{.q = r.normal({tokens, key_heads, size}),
                      .k = r.normal({tokens, key_heads, size}),
                      .v = r.normal({tokens, heads, size + 2}),
                      .log_decay = mapped(r, {tokens, heads}, [](double x) { return -0.3 * std::abs(x); }),
                      .strength = mapped(r, {tokens, heads}, [](double x) { return 1 / (1 + std::exp(-x)); })};
  if (past != Past::none) o.state = r.normal(states(r), r.acc());
  if (past == Past::documents) o.first = documents(r, 3);
  return o;
}

int64_t terms(const Trial& r) { return 8 * length(r) * head_size(r); }

void rule_forward(K k, Trial& r, Past past) {
  if (r.size.rows == 0) return;
  const DeltaRuleOperands o = rule_operands(r, past);
  k.delta_rule.forward(r.stream, r.output(o.v.shape(), terms(r)), r.output(states(r), r.acc(), terms(r)), o,
                       from_third);
}

// Runs the rule so that the last state overwrites the state before the first row.
void rule_forward_in_place(K k, Trial& r) {
  if (r.size.rows == 0) return;
  DeltaRuleOperands o = rule_operands(r, Past::none);
  o.state = r.update(states(r), r.acc(), terms(r));
  k.delta_rule.forward(r.stream, r.output(o.v.shape(), terms(r)), o.state, o, from_third);
}

void rule_backward(K k, Trial& r, Past past) {
  // The gradient through the norm of a single element is zero except for rounding.
  if (r.size.rows == 0 || head_size(r) == 1) return;
  // The decay of a single token has no effect without an earlier state.
  if (past == Past::none && length(r) == 1) return;
  const DeltaRuleOperands o = rule_operands(r, past);
  const Tensor dout = r.normal(o.v.shape());
  const Tensor dlast = past == Past::none ? Tensor() : r.normal(states(r), r.acc());
  DeltaRuleGradients g{.dq = r.output(o.q.shape(), terms(r)),
                       .dk = r.output(o.k.shape(), terms(r)),
                       .dv = r.output(o.v.shape(), terms(r)),
                       .dlog_decay = r.output(o.log_decay.shape(), r.acc(), terms(r)),
                       .dstrength = r.output(o.strength.shape(), r.acc(), terms(r))};
  if (past == Past::rows) g.dstate = r.output(states(r), r.acc(), terms(r));
  k.delta_rule.backward(r.stream, g, dout, dlast, o, from_third);
}

}  // namespace

std::vector<Case> delta_cases() {
  const size_t conv = entry(&KernelTable::causal_conv, &CausalConvKernels::forward);
  const size_t conv_back = entry(&KernelTable::causal_conv, &CausalConvKernels::backward);
  const size_t rule = entry(&KernelTable::delta_rule, &DeltaRuleKernels::forward);
  const size_t rule_back = entry(&KernelTable::delta_rule, &DeltaRuleKernels::backward);
  return {
      {"causal_conv", conv, [](K k, Trial& r) { conv_forward(k, r, Past::none); }},
      {"causal_conv_after_rows", conv, [](K k, Trial& r) { conv_forward(k, r, Past::rows); }},
      {"causal_conv_documents", conv, [](K k, Trial& r) { conv_forward(k, r, Past::documents); }},
      {"causal_conv_backward", conv_back, [](K k, Trial& r) { conv_backward(k, r, Past::none); }},
      {"causal_conv_after_rows_backward", conv_back, [](K k, Trial& r) { conv_backward(k, r, Past::rows); }},
      {"causal_conv_documents_backward", conv_back, [](K k, Trial& r) { conv_backward(k, r, Past::documents); }},
      {"delta_gate_forward", entry(&KernelTable::delta_gate, &DeltaGateKernels::forward), gate_forward},
      {"delta_gate_backward", entry(&KernelTable::delta_gate, &DeltaGateKernels::backward), gate_backward},
      {"delta_rule", rule, [](K k, Trial& r) { rule_forward(k, r, Past::none); }},
      {"delta_rule_after_state", rule, [](K k, Trial& r) { rule_forward(k, r, Past::rows); }},
      {"delta_rule_in_place", rule, rule_forward_in_place},
      {"delta_rule_documents", rule, [](K k, Trial& r) { rule_forward(k, r, Past::documents); }},
      {"delta_rule_backward", rule_back, [](K k, Trial& r) { rule_backward(k, r, Past::none); }},
      {"delta_rule_after_state_backward", rule_back, [](K k, Trial& r) { rule_backward(k, r, Past::rows); }},
      {"delta_rule_documents_backward", rule_back, [](K k, Trial& r) { rule_backward(k, r, Past::documents); }},
  };
}

}  // namespace hexad::tests
