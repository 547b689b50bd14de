#include <array>

#include "parallel/cp/delta_net_ops.h"
#include "parallel/cp/halves.h"
#include "parallel/cp/piece_chain.h"

namespace hexad::cp {

using namespace autograd;
using namespace base;
using kernels::DeltaRuleOperands;
namespace {

// Returns the operands of half `half` of this rank's rows. `state` is the state before the first row of this half.
DeltaRuleOperands operands_of(const DeltaRuleOperands& o, const Tensor& state, const ContextSplit& split, int half) {
  DeltaRuleOperands part;
  kernels::for_each_tensor<DeltaRuleOperands>([&](auto member) { part.*member = half_of(o.*member, split, half); });
  part.state = state;
  return part;
}

Tensor empty_states(const DeltaRuleOperands& o, const ContextSplit& split) {
  return Tensor::empty({split.sequences, o.v.dim(1), o.q.dim(2), o.v.dim(2)}, o.log_decay.dtype(), o.v.device());
}

void backward_of_rule(Backward& b, const Tensor& dout, const Saved& saved, const DeltaRows& rows) {
  const auto kept = saved.get<7>();
  const Halves states{kept[5], kept[6]};
  const DeltaRuleOperands all{kept[0], kept[1], kept[2], kept[3], kept[4], {}, rows.first};
  std::array<Tensor, 5> gradients;
  for (size_t i = 0; i < gradients.size(); ++i) gradients[i] = Tensor::like(kept[i]);
  PieceChain chain(rows.split, *rows.group, Along::earlier, b.stream);
  for (const int half : chain.halves()) {
    const auto part = [&](const Tensor& t) { return half_of(t, rows.split, half); };
    const Tensor dlast = chain.has_source(half) ? chain.take(half, empty_states(all, rows.split)) : Tensor();
    const Tensor dstate = states[half].defined() ? Tensor::like(states[half]) : Tensor();
    kernels::kernels(dout.device())
        .delta_rule.backward(b.stream,
                             {part(gradients[0]), part(gradients[1]), part(gradients[2]), part(gradients[3]),
                              part(gradients[4]), dstate},
                             part(dout), dlast, operands_of(all, states[half], rows.split, half),
                             sequence_rows(rows.split, half));
    if (dstate.defined()) chain.pass_on(half, dstate);
  }
  chain.finish();
  for (size_t i = 0; i < gradients.size(); ++i) b.accumulate(i, gradients[i]);
}

}  // namespace

Value delta_rule(Tape& tape, const DeltaInputs& in, const DeltaRows& rows) {
  const DeltaRuleOperands all{in.q.data, in.k.data, in.v.data, in.log_decay.data, in.strength.data, {}, rows.first};
  require(in.v.data.rank() == 3 && in.v.data.dim(0) == rows.split.rows(), "[delta_rule] v is ", in.v.shape(),
          "; expected [", rows.split.rows(), ", H, U]");
  if (rows.split.ranks > 1) connect_chain(*rows.group, in.v.device());
  const Tensor out = Tensor::like(in.v.data);
  Halves states;  // states before the first row of each half; undefined: zero states
  PieceChain chain(rows.split, *rows.group, Along::later, tape.stream);
  for (const int half : chain.halves()) {
    const Tensor last = empty_states(all, rows.split);
    if (chain.has_source(half)) states[half] = chain.take(half, last);
    kernels::kernels(out.device())
        .delta_rule.forward(tape.stream, half_of(out, rows.split, half), last,
                            operands_of(all, states[half], rows.split, half), sequence_rows(rows.split, half));
    chain.pass_on(half, last);
  }
  chain.finish();
  return tape.record("delta_rule", out, {in.q, in.k, in.v, in.log_decay, in.strength},
                     save(all.q, all.k, all.v, all.log_decay, all.strength, states[0], states[1]),
                     [rows](Backward& b, const Tensor& dout, const Saved& s) { backward_of_rule(b, dout, s, rows); });
}

}  // namespace hexad::cp
